// The Walsh–Hadamard transform, and Kashin's representation in a frame made of it (docs/wire-format.md, 7.11).
// hadamard_loops.inl holds the loops once; it is compiled for each instruction set, with identical results: each value
// is the same chain of exactly rounded sums, whatever the order in which a stage is walked.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradwire {

inline constexpr unsigned hadamard_longest = 30;  // log2
inline constexpr unsigned kashin_longest = 12;    // log2: three arrays of this length stay in the first caches

// Rows of a tight frame: entry i of a vector of `count` is embedded at positions[i], times signs[i] (1 or −1), into
// 2^log2n zeros, and transformed.
struct Frame {
    const std::uint32_t* positions;
    const float* signs;
    std::size_t count;
    unsigned log2n;
};

struct HadamardKernels {
    // x ← Hx for 2^log2n entries, not normalised; stages of distance 1, 2, 4, … in this order.
    void (*transform)(float* x, unsigned log2n);
    // Writes coefficients p with Hp/2^log2n = the embedded y at the frame's positions, and magnitudes of at most goal
    // if that is reached within `rounds`; returns the largest magnitude. scratch: 3·2^log2n entries.
    float (*represent)(const float* y, const Frame& frame, float goal, int rounds, float* p, float* scratch);
};

const HadamardKernels& hadamard_kernels() noexcept;

extern const HadamardKernels hadamard_kernels_portable;
extern const HadamardKernels hadamard_kernels_avx2;
extern const HadamardKernels hadamard_kernels_avx512;

}  // namespace gradwire
