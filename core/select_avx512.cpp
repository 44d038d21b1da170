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

// Where the entries come from.
struct Bits {
    const std::uint32_t* bits;
    void prefetch(std::size_t i) const noexcept { __builtin_prefetch(bits + i); }
    __m512i at(std::size_t i) const noexcept { return _mm512_loadu_si512(bits + i); }
    __m512i at(std::size_t i, __mmask16 there) const noexcept { return _mm512_maskz_loadu_epi32(there, bits + i); }
};

// x + residual, which goes to total.
struct Sums {
    const float* x;
    const float* residual;
    float* total;
    void prefetch(std::size_t i) const noexcept {
        __builtin_prefetch(x + i);
        __builtin_prefetch(residual + i);
    }
    __m512i at(std::size_t i) const noexcept {
        const __m512 sum = _mm512_add_ps(_mm512_loadu_ps(x + i), _mm512_loadu_ps(residual + i));
        _mm512_storeu_ps(total + i, sum);
        return _mm512_castps_si512(sum);
    }
    __m512i at(std::size_t i, __mmask16 there) const noexcept {
        const __m512 sum = _mm512_add_ps(_mm512_maskz_loadu_ps(there, x + i), _mm512_maskz_loadu_ps(there, residual + i));
        _mm512_mask_storeu_ps(total + i, there, sum);
        return _mm512_castps_si512(sum);
    }
};

// Calls each(mask, i) for every 64 entries from i on; bit j of the mask tells whether entry i + j passes the test.
template <class Entries, class Test, class Each>
[[gnu::always_inline]] inline void for_each_mask(const Entries& entries, std::size_t begin, std::size_t end,
                                                 const Test& test, const Each& each) noexcept {
    const __m512i magnitude = all(key_mask);
    std::size_t i = begin;
    for (; i + 64 <= end; i += 64) {
        std::uint64_t mask = 0;
#pragma GCC unroll 4
        for (unsigned q = 0; q < 4; ++q) entries.prefetch(i + prefetch_distance + 16 * q);
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q)
            mask |= std::uint64_t{test(_mm512_and_si512(entries.at(i + 16 * q), magnitude))} << (16 * q);
        each(mask, i);
    }
    if (i < end) {
        std::uint64_t mask = 0;
        for (std::size_t j = i; j < end; j += 16) {
            const auto there = static_cast<__mmask16>(end - j >= 16 ? 0xFFFF : (1u << (end - j)) - 1);
            const __m512i key = _mm512_and_si512(entries.at(j, there), magnitude);
            mask |= std::uint64_t{static_cast<__mmask16>(test(key) & there)} << (j - i);
        }
        each(mask, i);
    }
}

template <class Entries, class Test>
[[gnu::always_inline]] inline std::size_t positions(const Entries& entries, std::size_t begin, std::size_t end,
                                                    const Test& test, std::uint32_t* out) noexcept {
    std::uint32_t* const first = out;
    for_each_mask(entries, begin, end, test, [&](std::uint64_t mask, std::size_t i) {
        out += write_positions_avx512(mask, static_cast<std::uint32_t>(i), out);
    });
    return static_cast<std::size_t>(out - first);
}

std::size_t at_least(const std::uint32_t* bits, std::size_t begin, std::size_t end, std::uint32_t low,
                     std::uint32_t* out) noexcept {
    return positions(Bits{bits}, begin, end, AtLeast{all(low)}, out);
}

std::size_t between(const std::uint32_t* bits, std::size_t begin, std::size_t end, std::uint32_t low,
                    std::uint32_t high, std::uint32_t* out) noexcept {
    return positions(Bits{bits}, begin, end, Between{all(low), all(high - low)}, out);
}

std::size_t count_at_least(const std::uint32_t* bits, std::size_t begin, std::size_t end, std::uint32_t low) noexcept {
    std::size_t count = 0;
    for_each_mask(Bits{bits}, begin, end, AtLeast{all(low)}, [&](std::uint64_t mask, std::size_t) {
        count += static_cast<std::size_t>(_mm_popcnt_u64(mask));
    });
    return count;
}

std::size_t sum_at_least(const float* x, const float* residual, std::size_t n, float* total, std::uint32_t low,
                         std::uint32_t* out) noexcept {
    return positions(Sums{x, residual, total}, 0, n, AtLeast{all(low)}, out);
}

}  // namespace

const SelectKernels select_kernels_avx512 = {at_least, between, count_at_least, sum_at_least};

}  // namespace gradwire
