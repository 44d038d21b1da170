#include <immintrin.h>

#include "select.hpp"

namespace gradwire {
namespace {

struct AtLeast {
    __m256i below;  // low − 1: the comparison is signed, and keys are below 2^31
    std::uint32_t operator()(__m256i key) const noexcept {
        return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(key, below))));
    }
};

struct Between {
    __m256i low, width;
    std::uint32_t operator()(__m256i key) const noexcept {
        const __m256i above = _mm256_sub_epi32(key, low);
        const __m256i inside = _mm256_cmpeq_epi32(_mm256_min_epu32(above, width), above);
        return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(inside)));
    }
};

__m256i all(std::uint32_t v) noexcept { return _mm256_set1_epi32(static_cast<int>(v)); }

AtLeast at_least_test(std::uint32_t low) noexcept { return {all(low - 1)}; }

// For each byte the positions of its ones, ascending, a byte each.
struct BytePositions {
    std::uint64_t of[256];
};
constexpr BytePositions byte_positions() {
    BytePositions table{};
    for (unsigned v = 0; v < 256; ++v) {
        unsigned shift = 0;
        for (std::uint64_t bit = 0; bit < 8; ++bit)
            if (v >> bit & 1) {
                table.of[v] |= bit << shift;
                shift += 8;
            }
    }
    return table;
}
constexpr BytePositions table = byte_positions();

// As write_positions_avx512.
[[gnu::always_inline]] inline std::size_t write_positions(std::uint64_t mask, std::uint32_t first,
                                                          std::uint32_t* out) noexcept {
    const auto count = static_cast<std::size_t>(_mm_popcnt_u64(mask));
    if (count <= 4) {  // the usual case when few are selected; four are written whatever the count, to save branches
        for (int j = 0; j < 4; ++j) {
            out[j] = first + static_cast<std::uint32_t>(_tzcnt_u64(mask));
            mask = _blsr_u64(mask);
        }
        return count;
    }
    for (std::uint32_t byte = 0; byte < 8; ++byte) {
        const auto v = static_cast<std::uint8_t>(mask >> (8 * byte));
        const __m256i within = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(table.of[v])));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_add_epi32(within, all(first + 8 * byte)));
        out += _mm_popcnt_u32(v);
    }
    return count;
}

// Calls each(mask, i) for every 64 entries from i on; bit j of the mask tells whether entry i + j passes the test.
template <class Test, class Each>
[[gnu::always_inline]] inline void for_each_mask(const std::uint32_t* bits, std::size_t begin, std::size_t end,
                                                 const Test& test, const Each& each) noexcept {
    const __m256i magnitude = all(key_mask);
    const auto load = [&](std::size_t i) {
        return _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bits + i)), magnitude);
    };
    std::size_t i = begin;
    for (; i + 64 <= end; i += 64) {
        std::uint64_t mask = 0;
#pragma GCC unroll 8
        for (unsigned q = 0; q < 8; ++q) mask |= std::uint64_t{test(load(i + 8 * q))} << (8 * q);
        each(mask, i);
    }
    if (i < end) {
        std::uint64_t mask = 0;
        std::size_t j = i;
        for (; j + 8 <= end; j += 8) mask |= std::uint64_t{test(load(j))} << (j - i);
        for (; j < end; ++j)
            mask |= std::uint64_t{test(all(bits[j] & key_mask)) & 1} << (j - i);
        each(mask, i);
    }
}

template <class Test>
[[gnu::always_inline]] inline std::size_t positions(const std::uint32_t* bits, std::size_t begin, std::size_t end,
                                                    const Test& test, std::uint32_t* out) noexcept {
    std::uint32_t* const first = out;
    for_each_mask(bits, begin, end, test, [&](std::uint64_t mask, std::size_t i) {
        out += write_positions(mask, static_cast<std::uint32_t>(i), out);
    });
    return static_cast<std::size_t>(out - first);
}

std::size_t at_least(const std::uint32_t* bits, std::size_t begin, std::size_t end, std::uint32_t low,
                     std::uint32_t* out) noexcept {
    return positions(bits, begin, end, at_least_test(low), out);
}

std::size_t between(const std::uint32_t* bits, std::size_t begin, std::size_t end, std::uint32_t low,
                    std::uint32_t high, std::uint32_t* out) noexcept {
    return positions(bits, begin, end, Between{all(low), all(high - low)}, out);
}

std::size_t count_at_least(const std::uint32_t* bits, std::size_t begin, std::size_t end, std::uint32_t low) noexcept {
    std::size_t count = 0;
    for_each_mask(bits, begin, end, at_least_test(low), [&](std::uint64_t mask, std::size_t) {
        count += static_cast<std::size_t>(_mm_popcnt_u64(mask));
    });
    return count;
}

}  // namespace

const SelectKernels select_kernels_avx2 = {at_least, between, count_at_least};

}  // namespace gradwire
