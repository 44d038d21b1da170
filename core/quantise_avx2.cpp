#include <immintrin.h>

#include <cmath>
#include <limits>

#include "quantise.hpp"

namespace gradwire {
namespace avx2 {
namespace {
#include "quantise_loops.inl"

inline __m256d lower(__m256i k) { return _mm256_cvtepi32_pd(_mm256_castsi256_si128(k)); }
inline __m256d upper(__m256i k) { return _mm256_cvtepi32_pd(_mm256_extracti128_si256(k, 1)); }

// The 16 partial sums of 4.6, four a register.
struct Sums {
    __m256d part[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()};

    void load(const double* s) {
        for (int r = 0; r < 4; ++r) part[r] = _mm256_loadu_pd(s + 4 * r);
    }
    void store(double* s) const {
        for (int r = 0; r < 4; ++r) _mm256_storeu_pd(s + 4 * r, part[r]);
    }
    void add_squares(const float* x) {
        for (int r = 0; r < 4; ++r) {
            const __m256d a = _mm256_cvtps_pd(_mm_loadu_ps(x + 4 * r));
            part[r] = _mm256_add_pd(part[r], _mm256_mul_pd(a, a));
        }
    }
    void add_magnitudes(const float* x) {
        for (int r = 0; r < 4; ++r) {
            const __m128 y = _mm_andnot_ps(_mm_set1_ps(-0.0f), _mm_loadu_ps(x + 4 * r));
            part[r] = _mm256_add_pd(part[r], _mm256_cvtps_pd(y));
        }
    }
    void add_products(const float* x, __m256i k0, __m256i k1) {
        const __m256d k[4] = {lower(k0), upper(k0), lower(k1), upper(k1)};
        for (int r = 0; r < 4; ++r)
            part[r] = _mm256_add_pd(part[r], _mm256_mul_pd(_mm256_cvtps_pd(_mm_loadu_ps(x + 4 * r)), k[r]));
    }
    void add_squares(__m256i k0, __m256i k1) {
        const __m256d k[4] = {lower(k0), upper(k0), lower(k1), upper(k1)};
        for (int r = 0; r < 4; ++r) part[r] = _mm256_add_pd(part[r], _mm256_mul_pd(k[r], k[r]));
    }
    double fold() const {
        double s[lanes];
        store(s);
        return folded(s);
    }
};

// The last entries of a vector, zeros behind them: these add nothing to any sum.
struct Tail {
    alignas(32) float x[lanes] = {};
    Tail(const float* from, std::size_t count) {
        for (std::size_t j = 0; j < count; ++j) x[j] = from[j];
    }
};

Extent extent(const float* x, std::size_t n) {
    Extent result{0, 0};
    const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
    __m256i top0 = _mm256_setzero_si256(), top1 = top0;
    for (std::size_t begin = 0; begin < n; begin += block) {
        const std::size_t end = begin + block < n ? begin + block : n;
        Sums squares;
        const auto take = [&](const float* y) {
            const auto* bits = reinterpret_cast<const __m256i*>(y);
            top0 = _mm256_max_epu32(top0, _mm256_and_si256(_mm256_loadu_si256(bits), magnitude));
            top1 = _mm256_max_epu32(top1, _mm256_and_si256(_mm256_loadu_si256(bits + 1), magnitude));
            squares.add_squares(y);
        };
        std::size_t i = begin;
        for (; i + lanes <= end; i += lanes) {
            __builtin_prefetch(x + i + ahead);
            take(x + i);
        }
        if (i < end) take(Tail(x + i, end - i).x);
        result.squares += squares.fold();
    }
    alignas(32) std::uint32_t top[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(top), _mm256_max_epu32(top0, top1));
    for (unsigned j = 1; j < 8; ++j) top[0] = top[j] > top[0] ? top[j] : top[0];
    result.largest = _mm256_cvtss_f32(_mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(top[0]))));
    return result;
}

double sum_squares(const float* x, std::size_t n) { return extent(x, n).squares; }

void add_magnitudes(const float* x, std::size_t n, double* partial) {
    Sums sums;
    sums.load(partial);
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        __builtin_prefetch(x + i + ahead);
        sums.add_magnitudes(x + i);
    }
    if (i < n) sums.add_magnitudes(Tail(x + i, n - i).x);
    sums.store(partial);
}

inline __m256 scaled(__m256 x, __m256 inverse) {
    const __m256 t = _mm256_max_ps(_mm256_set1_ps(-most), _mm256_mul_ps(x, inverse));
    return _mm256_min_ps(_mm256_set1_ps(most), t);
}

LevelSums level_sums(const float* x, std::size_t n, float inverse) {
    LevelSums result{};
    const __m256 inverses = _mm256_set1_ps(inverse);
    const __m256i zero = _mm256_setzero_si256();
    for (std::size_t begin = 0; begin < n; begin += block) {
        const std::size_t end = begin + block < n ? begin + block : n;
        Sums products, squares;
        __m256i nonzero = zero;  // block / 16 in a lane, at most
        const auto take = [&](const float* y) {
            const __m256i k0 = _mm256_cvtps_epi32(scaled(_mm256_loadu_ps(y), inverses));
            const __m256i k1 = _mm256_cvtps_epi32(scaled(_mm256_loadu_ps(y + 8), inverses));
            const __m256i zeros = _mm256_add_epi32(_mm256_cmpeq_epi32(k0, zero), _mm256_cmpeq_epi32(k1, zero));
            nonzero = _mm256_add_epi32(nonzero, _mm256_add_epi32(zeros, _mm256_set1_epi32(2)));
            products.add_products(y, k0, k1);
            squares.add_squares(k0, k1);
        };
        std::size_t i = begin;
        for (; i + lanes <= end; i += lanes) take(x + i);
        if (i < end) take(Tail(x + i, end - i).x);
        result.products += products.fold();
        result.squares += squares.fold();
        alignas(32) std::uint32_t counts[8];
        _mm256_store_si256(reinterpret_cast<__m256i*>(counts), nonzero);
        for (const std::uint32_t count : counts) result.nonzero += count;
    }
    return result;
}

// Levels of t; see quantise_avx512.cpp for why nothing needs to clamp it, and for the bytes below.
template <Rounding rounding>
inline __m256i levels(__m256 t, const std::uint32_t* words) {
    if constexpr (rounding == Rounding::nearest) {
        return _mm256_cvtps_epi32(t);
    } else {
        const __m256i word = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words));
        const __m256 u = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32(word, 8)), _mm256_set1_ps(0x1p-24f));
        const __m256 k = _mm256_floor_ps(t);
        const __m256 above = _mm256_sub_ps(t, k);
        if constexpr (rounding == Rounding::stochastic) {
            const __m256i up = _mm256_castps_si256(_mm256_cmp_ps(u, above, _CMP_LT_OQ));
            return _mm256_sub_epi32(_mm256_cvtps_epi32(k), up);
        } else {
            const __m256 dithered = _mm256_add_ps(above, _mm256_sub_ps(u, _mm256_set1_ps(0.5f)));
            const __m256 more = _mm256_round_ps(dithered, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
            return _mm256_cvtps_epi32(_mm256_add_ps(k, more));
        }
    }
}

inline __m256i zigzag_bytes(__m256i k) {
    return _mm256_xor_si256(_mm256_add_epi8(k, k), _mm256_cmpgt_epi8(_mm256_setzero_si256(), k));
}

template <Rounding rounding, bool summed>
bool quantise_plain(const float* x, std::size_t n, float inverse, const std::uint32_t* words, std::uint8_t* tokens,
                    double* products) {
    constexpr std::size_t at_once = 2 * lanes;
    const __m256 inverses = _mm256_set1_ps(inverse);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i top = _mm256_setzero_si256();
    Sums sums;
    if constexpr (summed) sums.load(products);
    const auto sixteen = [&](const float* y, const std::uint32_t* word) {
        const __m256i k0 = levels<rounding>(_mm256_mul_ps(_mm256_loadu_ps(y), inverses), word);
        const __m256i k1 = levels<rounding>(_mm256_mul_ps(_mm256_loadu_ps(y + 8), inverses), word + 8);
        if constexpr (summed) sums.add_products(y, k0, k1);
        return _mm256_packs_epi32(k0, k1);
    };
    const auto take = [&](const float* y, const std::uint32_t* word, std::uint8_t* to) {
        const __m256i first = sixteen(y, word), second = sixteen(y + lanes, word + lanes);
        const __m256i k = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(first, second), order);
        const __m256i zigzag = zigzag_bytes(k);
        top = _mm256_max_epu8(top, zigzag);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), zigzag);
    };
    std::size_t i = 0;
    for (; i + at_once <= n; i += at_once) {
        __builtin_prefetch(x + i + ahead);
        __builtin_prefetch(x + i + ahead + 16);
        take(x + i, words + i, tokens + i);
    }
    if (i < n) {
        // Behind the end, words of ones half round 0 to 0, by every rounding.
        float last[at_once] = {};
        std::uint32_t last_words[at_once];
        for (std::size_t j = 0; j < at_once; ++j) {
            if (j < n - i) last[j] = x[i + j];
            last_words[j] = rounding != Rounding::nearest && j < n - i ? words[i + j] : 0x80000000u;
        }
        std::uint8_t last_tokens[at_once];
        take(last, last_words, last_tokens);
        for (std::size_t j = 0; i < n; ++i, ++j) tokens[i] = last_tokens[j];
    }
    if constexpr (summed) sums.store(products);
    const __m256i above = _mm256_subs_epu8(top, _mm256_set1_epi8(plain_levels - 1));
    return _mm256_testz_si256(above, above) != 0;
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
    __m256 part[4];
    for (int r = 0; r < 4; ++r) part[r] = _mm256_loadu_ps(addends + 8 * r);
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256i token = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(tokens + i)));
        const __m256 by8 = _mm256_castsi256_ps(_mm256_slli_epi32(token, 28));   // its highest bit says which of two
        const __m256 by16 = _mm256_castsi256_ps(_mm256_slli_epi32(token, 27));
        const auto look_up = [&](int r) { return _mm256_permutevar8x32_ps(part[r], token); };
        const __m256 low = _mm256_blendv_ps(look_up(0), look_up(1), by8);
        const __m256 high = _mm256_blendv_ps(look_up(2), look_up(3), by8);
        _mm256_storeu_ps(out + i, _mm256_add_ps(_mm256_loadu_ps(out + i), _mm256_blendv_ps(low, high, by16)));
    }
    for (; i < n; ++i) out[i] += addends[tokens[i]];
}

}  // namespace
}  // namespace avx2

const QuantiseKernels quantise_kernels_avx2{
    avx2::extent,         avx2::sum_squares, avx2::add_magnitudes, avx2::level_sums, avx2::quantise,
    avx2::quantise_plain, avx2::dequantise,  avx2::add_scaled,     avx2::add_plain,  avx2::add_dithered,
    avx2::divide,         avx2::multiply};

}  // namespace gradwire
