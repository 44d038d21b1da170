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

// A long bitmap is cleared and filled region by region, while a region (256 KB) is in the second cache: from the third,
// which others use as well, a draw takes two to three times as long.
constexpr unsigned region_bits = 21;

constexpr std::size_t chunk = 2048;  // words of the generator that are made at once

// Candidates that are sorted at once: many for each region, in no more memory than the bitmap's, or 2 MB.
std::size_t sorted_at_once(std::uint32_t n, std::size_t wanted) noexcept {
    return std::min(wanted, std::max(std::size_t{1} << 18, std::size_t{n} / 64));
}

bool worth_sorting(std::uint32_t n, std::size_t wanted) noexcept { return n >> region_bits > 1 && wanted > 8 * chunk; }

std::size_t drawn_of(std::uint32_t n, std::uint32_t k) noexcept { return std::min(k, n - k); }

// The candidates in the order of their regions; ends[r] is where region r ends.
void sort_by_region(const std::uint32_t* candidates, std::size_t count, std::size_t regions, std::uint32_t* sorted,
                    std::uint32_t* ends) noexcept {
    std::fill_n(ends, regions + 1, 0);
    for (std::size_t i = 0; i < count; ++i) ++ends[(candidates[i] >> region_bits) + 1];
    for (std::size_t r = 1; r <= regions; ++r) ends[r] += ends[r - 1];
    for (std::size_t i = 0; i < count; ++i) sorted[ends[candidates[i] >> region_bits]++] = candidates[i];
}

// Calls insert_all(candidates, count), which returns how many are new, until `wanted` are in the bitmap. Never draws more
// words than are still wanted: they cannot give too many, so all of them belong to the subset whatever the order in
// which they are inserted, and the size of what is drawn at once has no influence. `at_once` + 16 fit into `drawn`.
template <class Insert>
void draw_until(std::size_t wanted, std::uint64_t seed, std::uint64_t stream, std::uint32_t n, std::size_t at_once,
                std::uint32_t* drawn, const Insert& insert_all) noexcept {
    const auto refused = wanted == 0 ? 0 : static_cast<std::uint32_t>((std::uint64_t{1} << 32) % n);
    const SubsetKernels& kernels = subset_kernels();
    std::uint32_t words[chunk];
    std::uint64_t next_word = 0;
    for (std::size_t size = 0; size < wanted;) {
        const std::size_t most = std::min(at_once, wanted - size);
        std::size_t count = 0;
        for (std::size_t begin = 0; begin < most; begin += chunk) {
            const std::size_t m = std::min(chunk, most - begin);
            philox_words(seed, stream, next_word, m, words);
            next_word += m;
            count += kernels.candidates(words, m, n, refused, drawn + count);
        }
        size += insert_all(drawn, count);
    }
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

std::size_t subset_draw_words(std::uint32_t n, std::uint32_t k) noexcept {
    const std::size_t wanted = drawn_of(n, k);
    return subset_bitmap_words(n) + (worth_sorting(n, wanted) ? sorted_at_once(n, wanted) + 8 : 0);
}

DrawnSubset draw_subset(std::uint64_t seed, std::uint64_t stream, std::uint32_t n, std::uint32_t k,
                        std::uint64_t* room) noexcept {
    const std::size_t bitmap_words = subset_bitmap_words(n), wanted = drawn_of(n, k);
    std::uint64_t* const bitmap = room;
    if (worth_sorting(n, wanted)) {
        const std::size_t at_once = sorted_at_once(n, wanted), regions = ((n - 1) >> region_bits) + 1;
        auto* const drawn = reinterpret_cast<std::uint32_t*>(room + bitmap_words);
        std::uint32_t* const sorted = drawn + at_once + 16;
        std::uint32_t ends[(std::uint64_t{1} << (32 - region_bits)) + 1];
        std::size_t cleared = 0;
        draw_until(wanted, seed, stream, n, at_once, drawn, [&](const std::uint32_t* candidates, std::size_t count) {
            sort_by_region(candidates, count, regions, sorted, ends);
            std::size_t added = 0;
            for (std::size_t r = 0, begin = 0; r < regions; begin = ends[r++]) {
                const std::size_t end = std::min((r + 1) << (region_bits - 6), bitmap_words);
                if (cleared < end) std::fill(bitmap + cleared, bitmap + end, 0);
                cleared = std::max(cleared, end);
                added += insert(sorted + begin, ends[r] - begin, bitmap);
            }
            return added;
        });
    } else {
        std::uint32_t drawn[chunk + 16];
        std::fill_n(bitmap, bitmap_words, 0);
        draw_until(wanted, seed, stream, n, chunk, drawn, [&](const std::uint32_t* candidates, std::size_t count) {
            return insert(candidates, count, bitmap);
        });
    }
    // Bits at and beyond n must come out zero.
    const bool complement = wanted != k;
    if (complement && n % 64 != 0) bitmap[bitmap_words - 1] |= ~std::uint64_t{0} << (n % 64);
    return {bitmap, complement ? ~std::uint64_t{0} : 0};
}

void subset_positions(const DrawnSubset& subset, std::uint32_t n, std::uint32_t* out) noexcept {
    subset_kernels().positions(subset.bitmap, subset_bitmap_words(n), subset.flip, out);
}

}  // namespace gradwire
