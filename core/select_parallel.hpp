// Selection by several threads: each goes over parts of the vector, and what they keep is joined in order, so the result
// is that of one thread. These allocate what they work in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "spare.hpp"
#include "subset.hpp"

namespace gradwire {

// select_top and take_top, by as many threads as there are where few entries of a long vector are wanted; else by one.
void select_top_in_parallel(const float* x, std::size_t n, std::size_t r, std::uint32_t* out, float* values);
void take_top_in_parallel(const float* x, const float* residual, float* total, std::size_t n, std::size_t r,
                          std::uint32_t* out, float* values);

// Entries that a part of the vector kept: ascending indices, and values.
class KeptEntries {
public:
    // Room for so many to start with; it grows up to `most`.
    KeptEntries(std::size_t room, std::size_t most);

    // Keeps the entries with |x_i| ≥ threshold > 0 of x[begin … end), x a Vector or a Sum (see select_reaching). Returns
    // end, or where there are too many the block before which it stopped, and nothing is of use.
    template <class Input>
    std::size_t keep(const Input& x, std::size_t begin, std::size_t end, float threshold);

    std::size_t size() const noexcept { return size_; }
    const std::uint32_t* indices() const noexcept { return reinterpret_cast<const std::uint32_t*>(memory_.data()); }
    const float* values() const noexcept { return reinterpret_cast<const float*>(memory_.data()) + room_; }

private:
    std::size_t room_, most_, size_ = 0;
    Spare memory_;  // indices, then values
};

// All entries with |x_i| ≥ threshold > 0, by parts, in order.
std::vector<KeptEntries> reaching_in_parallel(const float* x, std::size_t n, float threshold);

// The entries of the parts, one part behind the other.
std::size_t size_of(const std::vector<KeptEntries>& parts) noexcept;
void join(const std::vector<KeptEntries>& parts, std::uint32_t* indices, float* values);

// gather_subset and take_subset. Where an entry is not finite, those of its own block are left in total.
std::size_t gather_subset_in_parallel(const float* x, std::size_t n, const DrawnSubset& subset, float* values);
std::size_t take_subset_in_parallel(const float* x, const float* residual, float* total, std::size_t n,
                                    const DrawnSubset& subset, std::uint32_t* indices, float* values);

}  // namespace gradwire
