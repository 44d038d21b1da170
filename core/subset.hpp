// A uniform k-subset of {0 … n − 1} from a counter-based generator (wire format section 3.1).
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradwire {

// Room that `out` needs beyond its k entries, because whole registers are stored; their contents mean nothing.
inline constexpr std::size_t subset_slack = 64;

// Words of 64 bits in a bitmap of n bits.
constexpr std::size_t subset_bitmap_words(std::uint32_t n) { return (std::size_t{n} + 63) / 64; }

// A subset as it was drawn: the ones of bitmap ^ flip.
struct DrawnSubset {
    const std::uint64_t* bitmap;
    std::uint64_t flip;  // 0, or all ones where the complement was drawn
};

// Words of 64 bits that draw_subset works in: the bitmap, and where that is long, room to sort what goes into it.
std::size_t subset_draw_words(std::uint32_t n, std::uint32_t k) noexcept;

// Draws the subset. k ≤ n. `room` holds subset_draw_words(n, k) words of any content, and the bitmap in the end.
DrawnSubset draw_subset(std::uint64_t seed, std::uint64_t stream, std::uint32_t n, std::uint32_t k,
                        std::uint64_t* room) noexcept;

// Writes the subset of {0 … n − 1}, ascending; `out` has room for it and subset_slack.
void subset_positions(const DrawnSubset& subset, std::uint32_t n, std::uint32_t* out) noexcept;

struct Candidates {
    const std::uint32_t* first;
    std::size_t count;
};

struct SubsetKernels {
    // Candidates of m generator words: (w·n) >> 32 for every w with (w·n) mod 2^32 ≥ refused. Returns how many.
    // `out` has room for m + 16.
    std::size_t (*candidates)(const std::uint32_t* words, std::size_t m, std::uint32_t n, std::uint32_t refused,
                              std::uint32_t* out) noexcept;
    // Positions of the ones of bitmap ^ flip, ascending; `out` has room for them and subset_slack. Returns how many.
    std::size_t (*positions)(const std::uint64_t* bitmap, std::size_t count, std::uint64_t flip, std::uint32_t* out) noexcept;
    // Sets the candidates' bits; returns how many were not set before.
    std::size_t (*insert)(Candidates candidates, std::uint64_t* bitmap) noexcept;
    // The same of candidates for different words, taken by turns. Once a word was read soon after it had been written, the
    // processor holds every word back until the one before is stored: two chains of them take half as long as one.
    std::size_t (*insert_two)(Candidates one, Candidates other, std::uint64_t* bitmap) noexcept;
    // lists[ends[c >> bits]++] ← c, in order.
    void (*scatter)(Candidates candidates, unsigned bits, std::uint32_t* lists, std::uint32_t* ends) noexcept;
};

// The kernels for the level in force.
const SubsetKernels& subset_kernels() noexcept;

extern const SubsetKernels subset_kernels_portable;
extern const SubsetKernels subset_kernels_avx2;
extern const SubsetKernels subset_kernels_avx512;

}  // namespace gradwire
