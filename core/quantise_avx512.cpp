// GCC 12 warns of its own "undefined" operands (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#include <cmath>
#include <limits>

#include "quantise.hpp"

namespace gradwire {
namespace avx512 {
namespace {
#include "quantise_loops.inl"

inline __m512d lower(__m512i k) { return _mm512_cvtepi32_pd(_mm512_castsi512_si256(k)); }
inline __m512d upper(__m512i k) { return _mm512_cvtepi32_pd(_mm512_extracti32x8_epi32(k, 1)); }

// The 16 partial sums of 4.6. Products of two binary32 are exact in binary64: a fused addition rounds as two steps do.
struct Sums {
    __m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();

    void add_squares(const float* x, __mmask16 mask) {
        const __m512d a = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(static_cast<__mmask8>(mask), x));
        const __m512d b = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(static_cast<__mmask8>(mask >> 8), x + 8));
        low = _mm512_fmadd_pd(a, a, low);
        high = _mm512_fmadd_pd(b, b, high);
    }
    void add_magnitudes(const float* x, __mmask16 mask) {
        const __m512 y = _mm512_abs_ps(_mm512_maskz_loadu_ps(mask, x));
        low = _mm512_add_pd(low, _mm512_cvtps_pd(_mm512_castps512_ps256(y)));
        high = _mm512_add_pd(high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(y, 1)));
    }
    // Halves of x are read apart: converting what is loaded is cheaper than taking a register apart.
    void add_products(const float* x, __m512i k, __mmask16 mask) {
        const __m512d a = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(static_cast<__mmask8>(mask), x));
        const __m512d b = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(static_cast<__mmask8>(mask >> 8), x + 8));
        low = _mm512_fmadd_pd(a, lower(k), low);
        high = _mm512_fmadd_pd(b, upper(k), high);
    }
    void add_squares(__m512i k) {
        const __m512d a = lower(k), b = upper(k);
        low = _mm512_fmadd_pd(a, a, low);
        high = _mm512_fmadd_pd(b, b, high);
    }
    double fold() const {
        double s[lanes];
        _mm512_storeu_pd(s, low);
        _mm512_storeu_pd(s + 8, high);
        return folded(s);
    }
};

inline __mmask16 first_lanes(std::size_t count) {
    return static_cast<__mmask16>(count >= lanes ? 0xFFFF : (1u << count) - 1);
}

Extent extent(const float* x, std::size_t n) {
    Extent result{0, 0};
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i top = _mm512_setzero_si512();
    for (std::size_t begin = 0; begin < n; begin += block) {
        const std::size_t end = begin + block < n ? begin + block : n;
        Sums squares;
        const auto take = [&](std::size_t i, __mmask16 mask) {
            top = _mm512_max_epu32(top, _mm512_and_si512(_mm512_maskz_loadu_epi32(mask, x + i), magnitude));
            squares.add_squares(x + i, mask);
        };
        std::size_t i = begin;
        for (; i + 4 * lanes <= end; i += 4 * lanes) {
            for (std::size_t line = i; line < i + 4 * lanes; line += 16) __builtin_prefetch(x + line + ahead);
#pragma GCC unroll 4
            for (std::size_t j = i; j < i + 4 * lanes; j += lanes) take(j, 0xFFFF);
        }
        for (; i + lanes <= end; i += lanes) take(i, 0xFFFF);
        if (i < end) take(i, first_lanes(end - i));
        result.squares += squares.fold();
    }
    const auto largest = static_cast<int>(_mm512_reduce_max_epu32(top));
    result.largest = _mm512_cvtss_f32(_mm512_castsi512_ps(_mm512_set1_epi32(largest)));
    return result;
}

double sum_squares(const float* x, std::size_t n) { return extent(x, n).squares; }

void add_magnitudes(const float* x, std::size_t n, double* partial) {
    Sums sums{_mm512_loadu_pd(partial), _mm512_loadu_pd(partial + 8)};
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        __builtin_prefetch(x + i + ahead);
        sums.add_magnitudes(x + i, 0xFFFF);
    }
    if (i < n) sums.add_magnitudes(x + i, first_lanes(n - i));
    _mm512_storeu_pd(partial, sums.low);
    _mm512_storeu_pd(partial + 8, sums.high);
}

inline __m512 scaled(__m512 x, __m512 inverse) {
    const __m512 t = _mm512_max_ps(_mm512_set1_ps(-most), _mm512_mul_ps(x, inverse));
    return _mm512_min_ps(_mm512_set1_ps(most), t);
}

LevelSums level_sums(const float* x, std::size_t n, float inverse) {
    LevelSums result{};
    const __m512 inverses = _mm512_set1_ps(inverse);
    for (std::size_t begin = 0; begin < n; begin += block) {
        const std::size_t end = begin + block < n ? begin + block : n;
        Sums products, squares;
        const auto take = [&](std::size_t i, __mmask16 mask) {
            const __m512 y = _mm512_maskz_loadu_ps(mask, x + i);
            const __m512i k = _mm512_cvtps_epi32(scaled(y, inverses));
            result.nonzero += static_cast<unsigned>(__builtin_popcount(_mm512_test_epi32_mask(k, k)));
            products.add_products(x + i, k, mask);
            squares.add_squares(k);
        };
        std::size_t i = begin;
        for (; i + lanes <= end; i += lanes) take(i, 0xFFFF);
        if (i < end) take(i, first_lanes(end - i));
        result.products += products.fold();
        result.squares += squares.fold();
    }
    return result;
}

// Levels of t. Beyond the range of 32 bits they are its lowest, which is not plain: nothing needs to clamp t.
template <Rounding rounding>
inline __m512i levels(__m512 t, __m512i words) {
    if constexpr (rounding == Rounding::nearest) {
        return _mm512_cvtps_epi32(t);
    } else {
        const __m512 u = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_srli_epi32(words, 8)), _mm512_set1_ps(0x1p-24f));
        const __m512 k = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
        const __m512 above = _mm512_sub_ps(t, k);
        if constexpr (rounding == Rounding::stochastic) {
            const __mmask16 up = _mm512_cmp_ps_mask(u, above, _CMP_LT_OQ);
            return _mm512_cvtps_epi32(_mm512_mask_add_ps(k, up, k, _mm512_set1_ps(1.0f)));
        } else {
            const __m512 dithered = _mm512_add_ps(above, _mm512_sub_ps(u, _mm512_set1_ps(0.5f)));
            const __m512 more = _mm512_roundscale_ps(dithered, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
            return _mm512_cvtps_epi32(_mm512_add_ps(k, more));
        }
    }
}

// Bytes of four registers of levels, those beyond a byte's range saturated: there they are not plain in any case.
inline __m512i packed(__m512i a, __m512i b, __m512i c, __m512i d) {
    const __m512i by_four = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, by_four);
}

inline __m512i zigzag_bytes(__m512i k) {
    return _mm512_xor_si512(_mm512_add_epi8(k, k), _mm512_movm_epi8(_mm512_movepi8_mask(k)));
}

template <Rounding rounding, bool summed>
bool quantise_plain(const float* x, std::size_t n, float inverse, const std::uint32_t* words, std::uint8_t* tokens,
                    double* products) {
    constexpr std::size_t at_once = 4 * lanes;
    const __m512 inverses = _mm512_set1_ps(inverse);
    __m512i top = _mm512_setzero_si512();
    Sums sums;
    if constexpr (summed) sums = {_mm512_loadu_pd(products), _mm512_loadu_pd(products + 8)};
    const auto levels_at = [&](std::size_t i, __mmask16 mask) {
        const __m512 y = _mm512_maskz_loadu_ps(mask, x + i);
        __m512i word = _mm512_setzero_si512();
        if constexpr (rounding != Rounding::nearest) word = _mm512_maskz_loadu_epi32(mask, words + i);
        const __m512i k = levels<rounding>(_mm512_mul_ps(y, inverses), word);
        if constexpr (summed) sums.add_products(x + i, k, mask);
        return k;
    };
    std::size_t i = 0;
    for (; i + at_once <= n; i += at_once) {
        for (std::size_t line = i; line < i + at_once; line += 16) __builtin_prefetch(x + line + ahead);
        const __m512i a = levels_at(i, 0xFFFF), b = levels_at(i + lanes, 0xFFFF);
        const __m512i c = levels_at(i + 2 * lanes, 0xFFFF), d = levels_at(i + 3 * lanes, 0xFFFF);
        const __m512i zigzag = zigzag_bytes(packed(a, b, c, d));
        top = _mm512_max_epu8(top, zigzag);
        _mm512_storeu_si512(tokens + i, zigzag);
    }
    for (; i < n; i += lanes) {
        const __mmask16 mask = first_lanes(n - i);
        // Beyond the end, dither makes levels that are not there.
        const __m512i k = _mm512_maskz_mov_epi32(mask, levels_at(i, mask)), none = _mm512_setzero_si512();
        const __m512i zigzag = zigzag_bytes(packed(k, none, none, none));
        top = _mm512_max_epu8(top, zigzag);
        _mm512_mask_storeu_epi8(tokens + i, mask, zigzag);
    }
    if constexpr (summed) {
        _mm512_storeu_pd(products, sums.low);
        _mm512_storeu_pd(products + 8, sums.high);
    }
    return _mm512_cmpge_epu8_mask(top, _mm512_set1_epi8(plain_levels)) == 0;
}

bool quantise_plain(const float* x, std::size_t n, float inverse, Rounding rounding, const std::uint32_t* words,
                    std::uint8_t* tokens, double* products) {
    switch (rounding) {
        case Rounding::nearest:
            return products == nullptr
                       ? quantise_plain<Rounding::nearest, false>(x, n, inverse, words, tokens, products)
                       : quantise_plain<Rounding::nearest, true>(x, n, inverse, words, tokens, products);
        case Rounding::stochastic:
            return quantise_plain<Rounding::stochastic, false>(x, n, inverse, words, tokens, products);
        case Rounding::shared: break;
    }
    return quantise_plain<Rounding::shared, false>(x, n, inverse, words, tokens, products);
}

void add_plain(float* out, const std::uint8_t* tokens, std::size_t n, const float* addends) {
    const __m512 low = _mm512_loadu_ps(addends), high = _mm512_loadu_ps(addends + 16);
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        const __m512i token = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(tokens + i)));
        _mm512_storeu_ps(out + i, _mm512_add_ps(_mm512_loadu_ps(out + i), _mm512_permutex2var_ps(low, token, high)));
    }
    for (; i < n; ++i) out[i] += addends[tokens[i]];
}

}  // namespace
}  // namespace avx512

const QuantiseKernels quantise_kernels_avx512{
    avx512::extent,         avx512::sum_squares, avx512::add_magnitudes, avx512::level_sums, avx512::quantise,
    avx512::quantise_plain, avx512::dequantise,  avx512::add_scaled,     avx512::add_plain,  avx512::add_dithered,
    avx512::divide,         avx512::multiply};

}  // namespace gradwire
