// Kashin's coefficients (docs/wire-format.md, 7.11): rounded to numbers, and put together again in their frames.
#pragma once

#include "hadamard.hpp"
#include "levels.hpp"

namespace gradwire {

struct Coefficients {
    const float* p;
    const float* magnitudes;  // the largest of each row of 2^log2n; rows of zeros have 0
    unsigned log2n;           // at most kashin_longest
    float half;               // (levels − 1) / 2
    std::uint64_t seed;
    std::uint64_t before;     // how many coefficients of the vector come before p: their words are passed over
};

// Writes the block of the coefficients first … first + m − 1, whole rows, to scratch.block and returns its size.
std::size_t encode_coefficient_block(const Coefficients& coefficients, std::size_t first, std::size_t m,
                                     const LevelScratch& scratch) noexcept;

struct FrameSum {
    float largest_level;  // levels − 1
    float step, power, weight;
};

// out += weight · (the entries of one chunk), saturating: numbers are its 2^frame.log2n, count its entries. Number is
// std::uint8_t or std::uint16_t: there are more of them than entries.
template <class Number>
void add_chunk(const Number* numbers, const Frame& frame, const FrameSum& sum, float* out, std::size_t count) noexcept;

}  // namespace gradwire
