// Random rounding to powers of two (docs/wire-format.md, 7.7 and 7.8).
// natural_loops.inl holds the loop once; it is compiled for each instruction set, with identical results.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradwire {

// A rounded number's code: 0 for 0, else 2·(exponent + natural_bias), plus 1 for a negative number.
inline constexpr int natural_bias = 150;
inline constexpr int natural_lowest = -149;  // the exponent of the smallest binary32

struct NaturalKernels {
    // Codes of x rounded to one of the two powers of two around it; below 2^lowest to that or to 0. Unbiased: with m
    // the mantissa's 23 bits it goes up with probability m·2^-23, exactly. words: n random words. lowest is
    // natural_lowest, or in -126 … 0.
    void (*round)(const float* x, std::size_t n, int lowest, const std::uint32_t* words, std::uint32_t* codes);
    // Codes to zigzag levels, in place, that count down from the largest exponent (natural_bias added) of the whole
    // vector; tokens gets their lowest bytes. Returns the levels or'ed. A code is 2·exponent + s, s the sign, and the zigzag of ±k is 2k − s.
    std::uint32_t (*levels)(std::uint32_t* codes, std::size_t n, std::uint32_t largest, std::uint8_t* tokens);
};

const NaturalKernels& natural_kernels() noexcept;

extern const NaturalKernels natural_kernels_portable;
extern const NaturalKernels natural_kernels_avx2;
extern const NaturalKernels natural_kernels_avx512;

}  // namespace gradwire
