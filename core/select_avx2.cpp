#include <bit>

#include "select.hpp"
#include "select_positions_avx2.hpp"

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

// Where the entries come from.
struct Bits {
    const std::uint32_t* bits;
    void prefetch(std::size_t i) const noexcept { __builtin_prefetch(bits + i); }
    __m256i at(std::size_t i) const noexcept {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bits + i));
    }
    std::uint32_t one(std::size_t i) const noexcept { return bits[i]; }
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
    __m256i at(std::size_t i) const noexcept {
        const __m256 sum = _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(residual + i));
        _mm256_storeu_ps(total + i, sum);
        return _mm256_castps_si256(sum);
    }
    std::uint32_t one(std::size_t i) const noexcept {
        total[i] = x[i] + residual[i];
        return std::bit_cast<std::uint32_t>(total[i]);
    }
};

// Calls each(mask, i) for every 64 entries from i on; bit j of the mask tells whether entry i + j passes the test.
template <class Entries, class Test, class Each>
[[gnu::always_inline]] inline void for_each_mask(const Entries& entries, std::size_t begin, std::size_t end,
                                                 const Test& test, const Each& each) noexcept {
    const __m256i magnitude = all(key_mask);
    const auto key = [&](std::size_t i) { return _mm256_and_si256(entries.at(i), magnitude); };
    std::size_t i = begin;
    for (; i + 64 <= end; i += 64) {
        std::uint64_t mask = 0;
#pragma GCC unroll 4
        for (unsigned q = 0; q < 4; ++q) entries.prefetch(i + prefetch_distance + 16 * q);
#pragma GCC unroll 8
        for (unsigned q = 0; q < 8; ++q) mask |= std::uint64_t{test(key(i + 8 * q))} << (8 * q);
        each(mask, i);
    }
    if (i < end) {
        std::uint64_t mask = 0;
        std::size_t j = i;
        for (; j + 8 <= end; j += 8) mask |= std::uint64_t{test(key(j))} << (j - i);
        for (; j < end; ++j) mask |= std::uint64_t{test(all(entries.one(j) & key_mask)) & 1} << (j - i);
        each(mask, i);
    }
}

template <class Entries, class Test>
[[gnu::always_inline]] inline std::size_t positions(const Entries& entries, std::size_t begin, std::size_t end,
                                                    const Test& test, std::uint32_t* out) noexcept {
    std::uint32_t* const first = out;
    for_each_mask(entries, begin, end, test, [&](std::uint64_t mask, std::size_t i) {
        out += write_positions_avx2(mask, static_cast<std::uint32_t>(i), out);
    });
    return static_cast<std::size_t>(out - first);
}

std::size_t at_least(const std::uint32_t* bits, std::size_t begin, std::size_t end, std::uint32_t low,
                     std::uint32_t* out) noexcept {
    return positions(Bits{bits}, begin, end, at_least_test(low), out);
}

std::size_t between(const std::uint32_t* bits, std::size_t begin, std::size_t end, std::uint32_t low,
                    std::uint32_t high, std::uint32_t* out) noexcept {
    return positions(Bits{bits}, begin, end, Between{all(low), all(high - low)}, out);
}

std::size_t count_at_least(const std::uint32_t* bits, std::size_t begin, std::size_t end, std::uint32_t low) noexcept {
    std::size_t count = 0;
    for_each_mask(Bits{bits}, begin, end, at_least_test(low), [&](std::uint64_t mask, std::size_t) {
        count += static_cast<std::size_t>(_mm_popcnt_u64(mask));
    });
    return count;
}

std::size_t sum_at_least(const float* x, const float* residual, std::size_t n, float* total, std::uint32_t low,
                         std::uint32_t* out) noexcept {
    return positions(Sums{x, residual, total}, 0, n, at_least_test(low), out);
}

}  // namespace

const SelectKernels select_kernels_avx2 = {at_least, between, count_at_least, sum_at_least};

}  // namespace gradwire
