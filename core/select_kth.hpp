// The r-th largest key of an array, exactly, by histograms of ever narrower ranges of keys.
#pragma once

#include "select.hpp"

namespace gradwire {

struct Kth {
    std::uint32_t key;
    std::size_t greater;  // entries with a larger key; fewer than r
    std::size_t equal;    // entries with this key; greater + equal ≥ r
};

// The r-th largest of n keys, 1 ≤ r ≤ n. No key may be below `low`; the answer is found fastest if it is among the
// 2^(11 + shift) keys from low on (shift ≤ 20).
Kth kth_largest(const SelectKernels& kernels, const std::uint32_t* bits, std::size_t n, std::size_t r,
                std::uint32_t low = 0, unsigned shift = 20) noexcept;

}  // namespace gradwire
