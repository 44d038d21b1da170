// Plain float kernels: finiteness, half precision, gathering and weighted adding.
// values_loops.inl holds the loops once; it is compiled for each instruction set, with identical results.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradwire {

// Floats as they lie in a message: unaligned, little-endian.
enum class FloatFormat { float32 = 0, float16 = 1, bfloat16 = 2 };

constexpr std::size_t bytes_of(FloatFormat format) noexcept { return format == FloatFormat::float32 ? 4 : 2; }

struct ValueKernels {
    // Index of the first NaN or infinity; n if there is none.
    std::size_t (*find_nonfinite)(const float* x, std::size_t n);
    float (*max_abs)(const float* x, std::size_t n);
    // out[i] = x[i] + y[i]; out may be either of them.
    void (*sum)(const float* x, const float* y, std::size_t n, float* out);
    // out[i] += weight * values[i], each product and sum rounded once.
    void (*add_dense)(float* out, const float* values, std::size_t n, float weight);
    void (*encode_bfloat16)(const float* x, std::size_t n, std::uint16_t* out);
    void (*decode_bfloat16)(const std::uint16_t* h, std::size_t n, float* out);
    // binary16 of x * 2^-exponent, nearest even, magnitudes above 65504 become 65504; exponent in -126 … 126.
    void (*encode_float16)(const float* x, std::size_t n, int exponent, std::uint16_t* out);
    void (*decode_float16)(const std::uint16_t* h, std::size_t n, int exponent, float* out);
    bool (*all_finite)(const std::uint8_t* data, std::size_t n, FloatFormat format);
    // out[i] += weight * the number i of data, scaled by 2^exponent if it is a binary16; all finite.
    void (*add_floats)(float* out, const std::uint8_t* data, std::size_t n, FloatFormat format, int exponent,
                       float weight);
};

// The kernels for the level in force.
const ValueKernels& value_kernels() noexcept;

extern const ValueKernels value_kernels_portable;
extern const ValueKernels value_kernels_avx2;
extern const ValueKernels value_kernels_avx512;

// These are bound by cache misses, not by arithmetic: one version. Indices must be below the other array's length.
void gather(const float* x, const std::uint32_t* indices, std::size_t k, float* out) noexcept;
void gather(const std::uint32_t* x, const std::uint32_t* indices, std::size_t k, std::uint32_t* out) noexcept;
void put_sparse(float* out, const std::uint32_t* indices, const float* values, std::size_t k) noexcept;
void add_sparse(float* out, const std::uint32_t* indices, const float* values, std::size_t k, float weight) noexcept;

}  // namespace gradwire
