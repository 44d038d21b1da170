#include "select.hpp"
#include "select_positions_avx512.hpp"

namespace gradwire {
namespace {

struct AtLeast {
    __m512i low;
    __mmask16 operator()(__m512i key) const noexcept { return _mm512_cmpge_epu32_mask(key, low); }
};

struct Between {
    __m512i low, width;
    __mmask16 operator()(__m512i key) const noexcept {
        return _mm512_cmple_epu32_mask(_mm512_sub_epi32(key, low), width);
    }
};

__m512i all(std::uint32_t v) noexcept { return _mm512_set1_epi32(static_cast<int>(v)); }

// Calls each(mask, i) for every 64 entries from i on; bit j of the mask tells whether entry i + j passes the test.
template <class Test, class Each>
[[gnu::always_inline]] inline void for_each_mask(const std::uint32_t* bits, std::size_t begin, std::size_t end,
                                                 const Test& test, const Each& each) noexcept {
    const __m512i magnitude = all(key_mask);
    std::size_t i = begin;
    for (; i + 64 <= end; i += 64) {
        std::uint64_t mask = 0;
#pragma GCC unroll 4
        for (unsigned q = 0; q < 4; ++q) __builtin_prefetch(bits + i + prefetch_distance + 16 * q);
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q)
            mask |= std::uint64_t{test(_mm512_and_si512(_mm512_loadu_si512(bits + i + 16 * q), magnitude))} << (16 * q);
        each(mask, i);
    }
    if (i < end) {
        std::uint64_t mask = 0;
        for (std::size_t j = i; j < end; j += 16) {
            const auto there = static_cast<__mmask16>(end - j >= 16 ? 0xFFFF : (1u << (end - j)) - 1);
            const __m512i key = _mm512_and_si512(_mm512_maskz_loadu_epi32(there, bits + j), magnitude);
            mask |= std::uint64_t{static_cast<__mmask16>(test(key) & there)} << (j - i);
        }
        each(mask, i);
    }
}

template <class Test>
[[gnu::always_inline]] inline std::size_t positions(const std::uint32_t* bits, std::size_t begin, std::size_t end,
                                                    const Test& test, std::uint32_t* out) noexcept {
    std::uint32_t* const first = out;
    for_each_mask(bits, begin, end, test, [&](std::uint64_t mask, std::size_t i) {
        out += write_positions_avx512(mask, static_cast<std::uint32_t>(i), out);
    });
    return static_cast<std::size_t>(out - first);
}

std::size_t at_least(const std::uint32_t* bits, std::size_t begin, std::size_t end, std::uint32_t low,
                     std::uint32_t* out) noexcept {
    return positions(bits, begin, end, AtLeast{all(low)}, out);
}

std::size_t between(const std::uint32_t* bits, std::size_t begin, std::size_t end, std::uint32_t low,
                    std::uint32_t high, std::uint32_t* out) noexcept {
    return positions(bits, begin, end, Between{all(low), all(high - low)}, out);
}

std::size_t count_at_least(const std::uint32_t* bits, std::size_t begin, std::size_t end, std::uint32_t low) noexcept {
    std::size_t count = 0;
    for_each_mask(bits, begin, end, AtLeast{all(low)}, [&](std::uint64_t mask, std::size_t) {
        count += static_cast<std::size_t>(_mm_popcnt_u64(mask));
    });
    return count;
}

}  // namespace

const SelectKernels select_kernels_avx512 = {at_least, between, count_at_least};

}  // namespace gradwire
