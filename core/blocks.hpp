// What a pass over a long vector reads, block by block, while a block is in the first cache: the vector itself, or a sum
// that is computed on the way.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "select.hpp"
#include "values.hpp"

namespace gradwire {

inline constexpr std::size_t pass_block = 4096;  // entries; a pass takes them in steps of so many

struct Vector {
    const float* x;
    static constexpr bool takes_out = false;

    // The entries of a block.
    const float* at(std::size_t begin, std::size_t) const noexcept { return x + begin; }
    // Writes the positions in a block with key ≥ low; afterwards its entries are at read(begin).
    std::size_t at_least(const SelectKernels& kernels, std::size_t begin, std::size_t end, std::uint32_t low,
                         std::uint32_t* out) const noexcept {
        return kernels.at_least(reinterpret_cast<const std::uint32_t*>(x + begin), 0, end - begin, low, out);
    }
    const float* read(std::size_t begin) const noexcept { return x + begin; }
    void take(std::size_t, const std::uint32_t*, std::size_t) const noexcept {}
};

// Leaves of an entry what is left when it is sent: 0, but of −0, which is decoded as 0, itself.
inline void take_entry(float& entry) noexcept { entry = entry == 0 ? entry : 0; }

// x + residual, written to total as the pass goes on, which must go through all of it. What is taken of a block leaves 0:
// while the block is in the cache that costs nothing. total may be x or residual, but must not overlap either in part;
// where it is one of them, its lines are in the cache already, and the pass takes two thirds of the time. Stores past the
// cache gain nothing where it is not.
struct Sum {
    const float* x;
    const float* residual;
    float* total;
    static constexpr bool takes_out = true;

    const float* at(std::size_t begin, std::size_t end) const noexcept {
        value_kernels().sum(x + begin, residual + begin, end - begin, total + begin);
        return total + begin;
    }
    std::size_t at_least(const SelectKernels& kernels, std::size_t begin, std::size_t end, std::uint32_t low,
                         std::uint32_t* out) const noexcept {
        return kernels.sum_at_least(x + begin, residual + begin, end - begin, total + begin, low, out);
    }
    const float* read(std::size_t begin) const noexcept { return total + begin; }
    // Entries at positions of the block that begins there.
    void take(std::size_t begin, const std::uint32_t* positions, std::size_t count) const noexcept {
        for (std::size_t j = 0; j < count; ++j) take_entry(total[begin + positions[j]]);
    }
    // An entry that is put back soon: by then, the pass has left it far behind, outside the caches.
    void expect(std::uint32_t index) const noexcept { __builtin_prefetch(total + index, 1); }
    void put_back(std::uint32_t index, std::uint32_t bits) const noexcept { total[index] = std::bit_cast<float>(bits); }
};

}  // namespace gradwire
