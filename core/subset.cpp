#include "subset.hpp"

#include <algorithm>
#include <bit>

#include "dispatch.hpp"
#include "philox.hpp"

namespace gradwire {
namespace {

std::size_t candidates(const std::uint32_t* words, std::size_t m, std::uint32_t n, std::uint32_t refused,
                       std::uint32_t* out) noexcept {
    std::size_t count = 0;
    for (std::size_t i = 0; i < m; ++i) {
        const std::uint64_t product = std::uint64_t{words[i]} * n;
        out[count] = static_cast<std::uint32_t>(product >> 32);
        count += static_cast<std::uint32_t>(product) >= refused;
    }
    return count;
}

std::size_t positions(const std::uint64_t* bitmap, std::size_t count, std::uint64_t flip, std::uint32_t* out) noexcept {
    std::uint32_t* const first = out;
    for (std::size_t i = 0; i < count; ++i) {
        std::uint64_t ones = bitmap[i] ^ flip;
        std::uint32_t* const end = out + std::popcount(ones);
        // Four at a time, too many rather than too few: a loop with an exact end would be mispredicted at every word.
        do {
            for (int j = 0; j < 4; ++j) {
                *out++ = static_cast<std::uint32_t>(64 * i) + static_cast<std::uint32_t>(std::countr_zero(ones));
                ones &= ones - 1;
            }
        } while (out < end);
        out = end;
    }
    return static_cast<std::size_t>(out - first);
}

// Sets the candidates' bits; returns how many were not set before. No branch: the cache misses of many candidates
// overlap, so this needs no prefetching.
std::size_t insert(const std::uint32_t* candidates, std::size_t count, std::uint64_t* bitmap) noexcept {
    std::size_t added = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t c = candidates[i];
        const std::uint64_t before = bitmap[c >> 6];
        added += (~before >> (c & 63)) & 1;
        bitmap[c >> 6] = before | std::uint64_t{1} << (c & 63);
    }
    return added;
}

}  // namespace

const SubsetKernels subset_kernels_portable = {candidates, positions};

const SubsetKernels& subset_kernels() noexcept {
#if defined(__x86_64__)
    switch (simd()) {
        case Simd::avx512: return subset_kernels_avx512;
        case Simd::avx2: return subset_kernels_avx2;
        case Simd::portable: break;
    }
#endif
    return subset_kernels_portable;
}

DrawnSubset draw_subset(std::uint64_t seed, std::uint64_t stream, std::uint32_t n, std::uint32_t k,
                        std::uint64_t* bitmap) noexcept {
    const std::size_t bitmap_words = subset_bitmap_words(n);
    std::fill_n(bitmap, bitmap_words, 0);
    const bool complement = k > n - k;
    const std::size_t wanted = complement ? n - k : k;
    const std::uint32_t refused = wanted == 0 ? 0 : static_cast<std::uint32_t>((std::uint64_t{1} << 32) % n);

    constexpr std::size_t chunk = 2048;
    std::uint32_t words[chunk], drawn[chunk + 16];
    std::uint64_t next_word = 0;
    for (std::size_t size = 0; size < wanted;) {
        // Never more words than are still wanted: they cannot give too many, so all of them belong to the subset
        // whatever the order in which they are inserted, and the chunk's size has no influence.
        const std::size_t m = std::min(chunk, wanted - size);
        philox_words(seed, stream, next_word, m, words);
        next_word += m;
        size += insert(drawn, subset_kernels().candidates(words, m, n, refused, drawn), bitmap);
    }
    // Bits at and beyond n must come out zero.
    if (complement && n % 64 != 0) bitmap[bitmap_words - 1] |= ~std::uint64_t{0} << (n % 64);
    return {bitmap, complement ? ~std::uint64_t{0} : 0};
}

void subset_positions(const DrawnSubset& subset, std::uint32_t n, std::uint32_t* out) noexcept {
    subset_kernels().positions(subset.bitmap, subset_bitmap_words(n), subset.flip, out);
}

}  // namespace gradwire
