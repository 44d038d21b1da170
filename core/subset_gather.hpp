// The entries of a vector that a random subset names, in the same pass that looks whether all of it is finite.
#pragma once

#include <cstddef>
#include <cstdint>

#include "subset.hpp"

namespace gradwire {

// values[j] ← the entry of x at the j-th smallest index of the subset; indices[j] ← that index, unless indices is null.
// Returns the index of the first entry of x that is not finite, and then what was written is of no use; else n.
std::size_t gather_subset(const float* x, std::size_t n, const DrawnSubset& subset, std::uint32_t* indices,
                          float* values) noexcept;

// The same of total ← x + residual, from which the entries are taken: 0 is left there. total may be x or residual, but
// must not overlap either in part.
std::size_t take_subset(const float* x, const float* residual, float* total, std::size_t n, const DrawnSubset& subset,
                        std::uint32_t* indices, float* values) noexcept;

// Of n indices and values those that a subset of {0 … n − 1} names, in order.
void thin_entries(const std::uint32_t* indices, const float* values, std::size_t n, const DrawnSubset& subset,
                  std::uint32_t* out_indices, float* out_values) noexcept;

// Puts the entries of which a subset of {0 … n − 1} names none back into total: total[indices[j]] ← values[j].
void put_back_others(const std::uint32_t* indices, const float* values, std::size_t n, const DrawnSubset& subset,
                     float* total) noexcept;

}  // namespace gradwire
