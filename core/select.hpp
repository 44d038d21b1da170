// The r entries of largest magnitude.
//
// A float's magnitudes are ordered as the unsigned integers that its bits make once the sign is cleared: its *key*. So
// −0 equals 0, and infinity and NaN rank above every finite number. Among equal keys the lower index goes first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradwire {

inline constexpr std::uint32_t key_mask = 0x7FFFFFFFu;

// Entries of each of the two scratch arrays that select_top wants. About 1.5·r, or n / 8 if r is a large part of n.
std::size_t select_top_scratch(std::size_t n, std::size_t r) noexcept;

// Writes the indices of the r entries with the largest keys to out[0 … r), ascending. r ≤ n < 2^32; `bits` are the
// floats' bits; the scratch arrays hold select_top_scratch(n, r) entries each, of any content.
void select_top(const std::uint32_t* bits, std::size_t n, std::size_t r, std::uint32_t* out,
                std::uint32_t* scratch_indices, std::uint32_t* scratch_keys) noexcept;

// Room that the kernels below need in `out` beyond what they write.
inline constexpr std::size_t select_slack = 64;

// One pass each over entries begin … end − 1; keys are compared, positions written, and their number returned.
struct SelectKernels {
    // Positions with key ≥ low.
    std::size_t (*at_least)(const std::uint32_t* bits, std::size_t begin, std::size_t end, std::uint32_t low,
                            std::uint32_t* out) noexcept;
    // Positions with low ≤ key ≤ high.
    std::size_t (*between)(const std::uint32_t* bits, std::size_t begin, std::size_t end, std::uint32_t low,
                           std::uint32_t high, std::uint32_t* out) noexcept;
    // How many have key ≥ low.
    std::size_t (*count_at_least)(const std::uint32_t* bits, std::size_t begin, std::size_t end,
                                  std::uint32_t low) noexcept;
};

extern const SelectKernels select_kernels_portable;
extern const SelectKernels select_kernels_avx2;
extern const SelectKernels select_kernels_avx512;

}  // namespace gradwire
