// Plain float kernels: finiteness, half precision, gathering and weighted adding.
// values_loops.inl holds the loops once; it is compiled for each instruction set, with identical results.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradwire {

struct ValueKernels {
    // Index of the first NaN or infinity; n if there is none.
    std::size_t (*find_nonfinite)(const float* x, std::size_t n);
    float (*max_abs)(const float* x, std::size_t n);
    // out[i] += weight * values[i], each product and sum rounded once.
    void (*add_dense)(float* out, const float* values, std::size_t n, float weight);
    void (*encode_bfloat16)(const float* x, std::size_t n, std::uint16_t* out);
    void (*decode_bfloat16)(const std::uint16_t* h, std::size_t n, float* out);
    // binary16 of x * 2^-exponent, nearest even, magnitudes above 65504 become 65504; exponent in -126 … 126.
    void (*encode_float16)(const float* x, std::size_t n, int exponent, std::uint16_t* out);
    void (*decode_float16)(const std::uint16_t* h, std::size_t n, int exponent, float* out);
};

// The kernels for the level in force.
const ValueKernels& value_kernels() noexcept;

extern const ValueKernels value_kernels_portable;
extern const ValueKernels value_kernels_avx2;
extern const ValueKernels value_kernels_avx512;

// These are bound by cache misses, not by arithmetic: one version. Indices must be below the other array's length.
void gather(const float* x, const std::uint32_t* indices, std::size_t k, float* out) noexcept;
void add_sparse(float* out, const std::uint32_t* indices, const float* values, std::size_t k, float weight) noexcept;

}  // namespace gradwire
