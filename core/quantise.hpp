// Uniform quantisation and the sums it needs (docs/wire-format.md, 4.6 and 7.4).
// quantise_loops.inl holds the loops once; it is compiled for each instruction set, with identical results. What a
// compiler does not turn into vectors well is written for each set by hand, in its file.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradwire {

enum class Rounding { nearest = 0, stochastic = 1, shared = 2 };

struct LevelSums {
    double products;   // Σ x·k
    double squares;    // Σ k²
    std::uint64_t nonzero;
};

struct Extent {
    float largest;   // max |x_i|; NaN or infinity if there is one
    double squares;  // Σ x_i²
};

// How many partial sums a block of 4.6 has, and their sum, which is left in the first.
inline constexpr std::size_t partial_sums = 16;
inline double folded(double* s) {
    for (std::size_t half = partial_sums / 2; half > 0; half /= 2)
        for (std::size_t j = 0; j < half; ++j) s[j] += s[j + half];
    return s[0];
}

inline constexpr unsigned plain_levels = 32;  // zigzag levels below are tokens as they are

struct QuantiseKernels {
    // Sums in the order of 4.6.
    Extent (*extent)(const float* x, std::size_t n);
    double (*sum_squares)(const float* x, std::size_t n);
    // Adds |x_i| to the partial sums of a block, x[0] to the first; n is a multiple of 16 but at the block's end.
    void (*add_magnitudes)(const float* x, std::size_t n, double* sums);
    // Of the levels that nearest rounding gives, without keeping them.
    LevelSums (*level_sums)(const float* x, std::size_t n, float inverse);
    // Zigzag levels of x·inverse. words: n random words, unless the rounding is to nearest.
    void (*quantise)(const float* x, std::size_t n, float inverse, Rounding rounding, const std::uint32_t* words,
                     std::uint32_t* zigzag);
    // The same as one byte each, as long as all are plain; else false, and what was written is of no use. Where products
    // is not null, x·k is added to its 16 partial sums (of nearest rounding; x[0] to the first).
    bool (*quantise_plain)(const float* x, std::size_t n, float inverse, Rounding rounding, const std::uint32_t* words,
                           std::uint8_t* tokens, double* products);
    // step·k, or step·(k − (U − ½)) where words is not null.
    void (*dequantise)(const std::uint32_t* zigzag, std::size_t n, float step, const std::uint32_t* words, float* out);
    // out += weight · (values·power), the product with power saturating at the largest finite number.
    void (*add_scaled)(float* out, const float* values, std::size_t n, float power, float weight);
    // out += addends[token], tokens plain.
    void (*add_plain)(float* out, const std::uint8_t* tokens, std::size_t n, const float* addends);
    // add_scaled of dequantise, with words, for plain tokens.
    void (*add_dithered)(float* out, const std::uint8_t* tokens, std::size_t n, const std::uint32_t* words, float step,
                         float power, float weight);
    // quotients = x / the divisor of the bucket of each entry; x[0] is entry number `first`.
    void (*divide)(const float* x, std::size_t first, std::size_t n, const float* divisors, std::size_t bucket,
                   float* quotients);
    // values *= the step of each entry's bucket.
    void (*multiply)(float* values, std::size_t first, std::size_t n, const float* steps, std::size_t bucket);
};

const QuantiseKernels& quantise_kernels() noexcept;

extern const QuantiseKernels quantise_kernels_portable;
extern const QuantiseKernels quantise_kernels_avx2;
extern const QuantiseKernels quantise_kernels_avx512;

}  // namespace gradwire
