// Signs as bits (docs/wire-format.md, 7.10): 1 means negative.
// signs_loops.inl holds the loops once; it is compiled for each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradwire {

struct SignKernels {
    // n / 8 bytes, rounded up; bits behind the last are 0.
    void (*pack)(const float* x, std::size_t n, std::uint8_t* bits);
    // out[i] += addend, or −addend where bit i is 1.
    void (*add)(float* out, std::size_t n, const std::uint8_t* bits, float addend);
};

const SignKernels& sign_kernels() noexcept;

extern const SignKernels sign_kernels_portable;
extern const SignKernels sign_kernels_avx2;
extern const SignKernels sign_kernels_avx512;

}  // namespace gradwire
