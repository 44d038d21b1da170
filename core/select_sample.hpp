// Where select_top looks first. The places depend on n alone; the result does not depend on them, only its time does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace gradwire {

inline constexpr std::size_t sample_run = 16;  // entries are sampled in runs of a cache line

// Entries in the sample: a multiple of sample_run, less than n; 0 where n is too small to be worth one.
constexpr std::size_t sample_size(std::size_t n) noexcept {
    if (n < 2048) return 0;
    const std::size_t size = std::max(n / 64, std::min<std::size_t>(n / 16, 1024));
    return std::min(size, std::size_t{1} << 16) / sample_run * sample_run;
}

// The first entry of run i. Runs are spread evenly, with a jitter that no pattern in the input is likely to share.
constexpr std::size_t sample_place(std::size_t n, std::size_t i) noexcept {
    const std::size_t stride = n / (sample_size(n) / sample_run);
    const std::uint64_t hash = static_cast<std::uint32_t>(i) * std::uint32_t{0x9E3779B9u};
    return i * stride + static_cast<std::size_t>((hash * (stride - sample_run + 1)) >> 32);
}

}  // namespace gradwire
