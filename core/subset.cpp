#include "subset.hpp"

#include <algorithm>
#include <bit>

#include "dispatch.hpp"
#include "philox.hpp"

namespace gradwire {
namespace {

#include "subset_loops.inl"

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

constexpr std::size_t chunk = 2048;  // words of the generator that are made at once

std::size_t drawn_of(std::uint32_t n, std::uint32_t k) noexcept { return std::min(k, n - k); }

// Sets bits of a short bitmap as their candidates come.
class WholeBitmap {
public:
    WholeBitmap(std::uint64_t* bitmap, std::size_t words) noexcept : bitmap_(bitmap) { std::fill_n(bitmap, words, 0); }

    void put(const std::uint32_t* candidates, std::size_t count) noexcept {
        size_ += subset_kernels().insert({candidates, count}, bitmap_);
    }
    std::size_t settle() noexcept { return size_; }

private:
    std::uint64_t* const bitmap_;
    std::size_t size_ = 0;
};

// A long bitmap is cleared and filled region by region, two at a time, while they are in the first cache, or in the second
// where there are many: a draw from the third takes two to three times as long. Until then candidates wait in a list for
// each region.
class RegionBitmap {
public:
    static bool worth(std::uint32_t n, std::size_t wanted) noexcept { return n >> 22 != 0 && wanted > 8 * chunk; }
    // Room for the lists, in candidates.
    static std::size_t room(std::uint32_t n) noexcept { return regions_of(n) * (stride_of(bits_of(n))); }

    RegionBitmap(std::uint64_t* bitmap, std::uint32_t n, std::uint32_t* lists) noexcept
        : bitmap_(bitmap), words_(subset_bitmap_words(n)), bits_(bits_of(n)), stride_(stride_of(bits_)),
          regions_(regions_of(n)), lists_(lists), free_(length()) {
        for (std::size_t r = 0; r < regions_; ++r) ends_[r] = begin_of(r);
    }

    void put(const std::uint32_t* candidates, std::size_t count) noexcept {
        if (free_ < count) make_room();
        free_ -= count;
        subset_kernels().scatter({candidates, count}, bits_, lists_, ends_);
    }

    // Sets the bits of all candidates so far; returns how many are set.
    std::size_t settle() noexcept {
        for (std::size_t r = 0; r < regions_; r += 2) set_bits_of_two(r);
        free_ = length();
        return size_;
    }

private:
    static constexpr std::size_t most_regions = 1024;

    static unsigned bits_of(std::uint32_t n) noexcept {
        return std::max(17u, static_cast<unsigned>(std::bit_width(n - 1)) - 10);
    }
    // Even: regions come in twos.
    static std::size_t regions_of(std::uint32_t n) noexcept { return (((n - 1) >> bits_of(n)) + 2) / 2 * 2; }
    // A list takes as much memory as its region's bits. Lists at multiples of a power of two would all want the same
    // places of the caches.
    static std::size_t stride_of(unsigned bits) noexcept { return (std::size_t{1} << (bits - 5)) + 80; }
    std::size_t length() const noexcept { return stride_ - 80; }
    std::uint32_t begin_of(std::size_t r) const noexcept { return static_cast<std::uint32_t>(r * stride_); }
    Candidates list_of(std::size_t r) const noexcept { return {lists_ + begin_of(r), ends_[r] - begin_of(r)}; }

    void set_bits_of_two(std::size_t r) noexcept {
        const Candidates one = list_of(r), other = list_of(r + 1);
        if (r >= cleared_) {
            const std::size_t end = std::min((r + 2) << (bits_ - 6), words_);
            std::fill(bitmap_ + (cleared_ << (bits_ - 6)), bitmap_ + end, 0);
            cleared_ = r + 2;
        } else {  // these words have left the caches since
            for (const Candidates& list : {one, other})
                for (std::size_t i = 0; i < list.count; ++i) __builtin_prefetch(bitmap_ + (list.first[i] >> 6), 1);
        }
        size_ += subset_kernels().insert_two(one, other, bitmap_);
        ends_[r] = begin_of(r);
        ends_[r + 1] = begin_of(r + 1);
    }

    // Empties lists that are half full, so that every one takes half its length at least.
    void make_room() noexcept {
        std::size_t longest = 0;
        for (std::size_t r = 0; r < regions_; r += 2) {
            if (std::max(list_of(r).count, list_of(r + 1).count) > length() / 2) set_bits_of_two(r);
            longest = std::max({longest, list_of(r).count, list_of(r + 1).count});
        }
        free_ = length() - longest;
    }

    std::uint64_t* const bitmap_;
    const std::size_t words_;
    const unsigned bits_;  // a region has 2^bits
    const std::size_t stride_, regions_;
    std::uint32_t* const lists_;
    std::size_t cleared_ = 0;  // regions
    std::size_t free_;         // candidates that every list has place for
    std::size_t size_ = 0;
    std::uint32_t ends_[most_regions];
};

// Fills a bitmap until `wanted` bits are set. Never draws more words than are still wanted: they cannot give too many, so
// all of them belong to the subset whatever the order in which they are inserted.
template <class Bitmap>
void draw_until(std::size_t wanted, std::uint64_t seed, std::uint64_t stream, std::uint32_t n, Bitmap&& bitmap) noexcept {
    const auto refused = wanted == 0 ? 0 : static_cast<std::uint32_t>((std::uint64_t{1} << 32) % n);
    const SubsetKernels& kernels = subset_kernels();
    std::uint32_t words[chunk], candidates[chunk + 16];
    std::uint64_t next_word = 0;
    for (std::size_t size = 0; size < wanted; size = bitmap.settle()) {
        for (std::size_t left = wanted - size; left > 0;) {
            const std::size_t m = std::min(chunk, left);
            philox_words(seed, stream, next_word, m, words);
            next_word += m;
            left -= m;
            bitmap.put(candidates, kernels.candidates(words, m, n, refused, candidates));
        }
    }
}

}  // namespace

const SubsetKernels subset_kernels_portable = {candidates, positions, insert, insert_two, scatter};

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
    return subset_bitmap_words(n) + (RegionBitmap::worth(n, drawn_of(n, k)) ? RegionBitmap::room(n) / 2 : 0);
}

DrawnSubset draw_subset(std::uint64_t seed, std::uint64_t stream, std::uint32_t n, std::uint32_t k,
                        std::uint64_t* room) noexcept {
    const std::size_t bitmap_words = subset_bitmap_words(n), wanted = drawn_of(n, k);
    std::uint64_t* const bitmap = room;
    if (RegionBitmap::worth(n, wanted)) {
        auto* const lists = reinterpret_cast<std::uint32_t*>(room + bitmap_words);
        draw_until(wanted, seed, stream, n, RegionBitmap(bitmap, n, lists));
    } else {
        draw_until(wanted, seed, stream, n, WholeBitmap(bitmap, bitmap_words));
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
