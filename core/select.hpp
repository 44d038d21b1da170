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

// Room for select_top to work in: select_top_scratch(n, r) entries each, of any content.
struct SelectScratch {
    std::uint32_t* indices;
    std::uint32_t* bits;
};

// Writes the indices of the r entries with the largest keys to out[0 … r), ascending, and the entries themselves to
// values[0 … r), unless that is null. r ≤ n < 2^32.
void select_top(const float* x, std::size_t n, std::size_t r, const SelectScratch& scratch, std::uint32_t* out,
                float* values) noexcept;

// The same of total ← x + residual, from which the r entries are taken: 0 is left there. One pass where r is a small part
// of n. total may be x or residual, but must not overlap either in part.
void take_top(const float* x, const float* residual, float* total, std::size_t n, std::size_t r,
              const SelectScratch& scratch, std::uint32_t* out, float* values) noexcept;

// Writes indices and values of the entries with |x_i| ≥ threshold > 0 from entry `begin` on, ascending, behind the
// *count that are in the arrays, and counts them. Returns where it stopped: n, or before a block that might not fit into
// the arrays' room. Input is Vector, or Sum, which is then added up to there; nothing is taken from it.
template <class Input>
std::size_t select_reaching(const Input& x, std::size_t n, std::size_t begin, float threshold, std::size_t room,
                            std::uint32_t* indices, float* values, std::size_t* count) noexcept;

// Room that the kernels below need in `out` beyond what they write.
inline constexpr std::size_t select_slack = 64;

// The kernels ask for entries so far ahead: beyond the end of a block, so that memory goes on while its harvest is worked
// on, and the processor's own prefetching, which stops at the ends of pages, has company.
inline constexpr std::size_t prefetch_distance = 1024;

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
    // total ← x + residual, n entries, and the positions in it with key ≥ low. One loop: the comparisons cost nothing while
    // memory is waited for. total may be x or residual.
    std::size_t (*sum_at_least)(const float* x, const float* residual, std::size_t n, float* total, std::uint32_t low,
                                std::uint32_t* out) noexcept;
};

// The kernels for the level in force.
const SelectKernels& select_kernels() noexcept;

extern const SelectKernels select_kernels_portable;
extern const SelectKernels select_kernels_avx2;
extern const SelectKernels select_kernels_avx512;

}  // namespace gradwire
