// Levels of powers of two (docs/wire-format.md, 7.7 and 7.8), fused with the rounding that makes them.
#pragma once

#include "levels.hpp"

namespace gradwire {

struct PowerQuantiser {
    float divisor;  // of every entry, before it is rounded; 1 for none
    int lowest;     // as for NaturalKernels::round
    std::uint64_t seed, stream;
};

// The largest exponent that rounding gives, natural_bias added, and 0 if all are 0. magnitude: the largest of x, which is
// finite. It tells the most that rounding can give, and once that is seen nothing more is read.
std::uint32_t largest_power(const float* x, std::size_t n, const PowerQuantiser& quantiser, float magnitude);

// Writes the block of x[first … first + m) to scratch.block, levels counted down from that largest exponent; m ≤ block_length. No products are summed.
LevelBlock encode_power_block(const float* x, std::size_t first, std::size_t m, const PowerQuantiser& quantiser,
                              std::uint32_t largest, const LevelScratch& scratch) noexcept;

}  // namespace gradwire
