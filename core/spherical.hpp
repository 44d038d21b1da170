// Spherical Compression (docs/wire-format.md, 7.12): random points of a sphere, and for each block of a vector the first
// one that approximates it. All arithmetic is exactly rounded in a fixed order: every instruction set finds the same.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradwire {

namespace spherical {
inline constexpr std::size_t longest = 256;    // entries of a block
inline constexpr std::size_t tile = 256;       // pairs of points made and tested at a time
inline constexpr float radius = 16.0f;         // of the sphere: then a gain is finite for every finite block
inline constexpr float raw_gain = -1.0f;       // marks a block that is sent as it is; 0 marks one of zeros
inline constexpr double least_energy = 0x1p-224;  // blocks with less are sent as they are
inline constexpr double margin = 1.0 - 0x1p-40;   // keeps the promise from the rounding of the sums that test it
inline constexpr unsigned index_bits = 40;
}  // namespace spherical

// How n entries are cut into m blocks, 0 < m ≤ n ≤ longest·m: the first n mod m have one entry more than the others.
struct BlockSplit {
    std::size_t n, m;

    std::size_t begin(std::size_t b) const noexcept { return b * (n / m) + (b < n % m ? b : n % m); }
    std::size_t length(std::size_t b) const noexcept { return n / m + (b < n % m); }
    std::size_t most() const noexcept { return n / m + (n % m != 0); }
};

// Rows that the points of blocks of d entries take in a buffer: four to a block of generator words.
constexpr std::size_t point_rows(std::size_t d) noexcept { return 4 * ((d + 3) / 4); }

struct SphericalKernels {
    // Point 2j of the pair j = pairs[lane], coordinate i at out[i·tile + lane], for the first `lanes` (a multiple of 16);
    // out has point_rows(d) rows of tile, of which those from d on hold nothing of meaning.
    void (*points)(std::uint64_t seed, const std::uint64_t* pairs, std::size_t lanes, std::size_t d, float* out) noexcept;
    // The first lane from `from` on whose inner product with u has a magnitude of at least `least`; tile if none has.
    std::size_t (*scan)(const float* points, const float* u, std::size_t d, float least, std::size_t from) noexcept;
};

extern const SphericalKernels spherical_kernels_portable;
extern const SphericalKernels spherical_kernels_avx2;
extern const SphericalKernels spherical_kernels_avx512;

struct SphericalSearch {
    const float* x;
    BlockSplit split;
    double alpha;
    std::uint64_t seed;
    std::uint64_t pair_limit;  // pairs tried for a block, at most 2^39; it is sent as it is when none serves
};

// Blocks that one call should take: many share the points that it makes, and their entries should stay in the cache.
std::size_t spherical_chunk(const BlockSplit& split, std::size_t threads) noexcept;

struct SearchScratch {
    float* points;          // point_rows(split.most())·tile
    float* units;           // count·split.most(), count = the blocks of the call
    double* energies;       // count
    std::uint32_t* active;  // count
};

// Point and gain of the blocks first … first + count − 1, written to index[0] … and gain[0] …
void spherical_search(const SphericalSearch& search, std::size_t first, std::size_t count, const SearchScratch& scratch,
                      std::uint64_t* index, float* gain) noexcept;

// The values of the blocks first … first + count − 1, written to out[0] …; index[b] < 2^40 and gain[b], b < count, are
// theirs, raw has the entries of those that are sent as they are; scratch has point_rows(split.most())·tile floats.
void spherical_values(const BlockSplit& split, std::uint64_t seed, std::size_t first, std::size_t count,
                      const std::uint64_t* index, const float* gain, const float* raw, float* scratch, float* out) noexcept;

}  // namespace gradwire
