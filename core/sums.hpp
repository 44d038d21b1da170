// Sums over whole vectors (docs/wire-format.md, 4.6), by as many threads as there are: the blocks of that order are
// summed on their own and added one after another, so the result is the same for every number of threads.
#pragma once

#include "quantise.hpp"

namespace gradwire {

inline constexpr std::size_t sum_block = std::size_t{1} << 20;

Extent extent(const float* x, std::size_t n);
double sum_squares(const float* x, std::size_t n);
double sum_abs(const float* x, std::size_t n);
LevelSums level_sums(const float* x, std::size_t n, float inverse);

// max |x_i|; NaN or infinity if there is one.
float largest_magnitude(const float* x, std::size_t n);

// Σ x_i² of each run of `bucket` entries, the last one maybe shorter: n / bucket numbers, rounded up.
void bucket_squares(const float* x, std::size_t n, std::size_t bucket, double* out);

}  // namespace gradwire
