// A step of rANS in 8 lanes, which rans_avx2.cpp and contextual_avx2.cpp share. AVX2.
#pragma once

#include <immintrin.h>

#include "rans_lanes.hpp"

namespace gradwire::avx2 {

// AVX2 has no compress and expand: for each mask of 8 lanes, the shuffle that does it.
struct Shuffles {
    alignas(16) std::uint8_t compress[256][16];  // of 16-bit words: the chosen ones to the front
    std::uint8_t expand[256][8];                 // of 32-bit lanes: chosen lane number i takes entry i
};

consteval Shuffles make_shuffles() noexcept {
    Shuffles result{};
    for (unsigned mask = 0; mask < 256; ++mask) {
        unsigned chosen = 0;
        for (unsigned lane = 0; lane < 8; ++lane) {
            // Of all eight, none follows them: an index that expand does not use must be one all the same.
            result.expand[mask][lane] = static_cast<std::uint8_t>(chosen & 7);
            if ((mask >> lane & 1) == 0) continue;
            result.compress[mask][2 * chosen] = static_cast<std::uint8_t>(2 * lane);
            result.compress[mask][2 * chosen + 1] = static_cast<std::uint8_t>(2 * lane + 1);
            ++chosen;
        }
    }
    return result;
}

inline constexpr Shuffles shuffles = make_shuffles();

// Encoding holds lanes in descending order: see rans_avx512.cpp.
template <unsigned registers>
GRADWIRE_INLINE void load_descending(__m256i (&x)[registers], const std::uint32_t* states) noexcept {
    const __m256i descending = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    for (unsigned r = 0; r < registers; ++r) {
        const auto* const at = reinterpret_cast<const __m256i*>(states + 8 * (registers - 1 - r));
        x[r] = _mm256_permutevar8x32_epi32(_mm256_loadu_si256(at), descending);
    }
}

template <unsigned registers>
GRADWIRE_INLINE void store_descending(const __m256i (&x)[registers], std::uint32_t* states) noexcept {
    const __m256i descending = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    for (unsigned r = 0; r < registers; ++r) {
        auto* const at = reinterpret_cast<__m256i*>(states + 8 * (registers - 1 - r));
        _mm256_storeu_si256(at, _mm256_permutevar8x32_epi32(x[r], descending));
    }
}

// Of a token: a little below 1 / f; start << 16 | f.
struct Entries {
    __m256 inverse;
    __m256i start_frequency;
};

// Of the 8 tokens or symbols at `at`, in descending order, from pairs of both. Loading them one by one costs no more than
// permuting a table that lies in registers, however few the tokens; gather is several times slower.
template <class Token>
GRADWIRE_INLINE Entries entries_of(const std::uint64_t* pairs, const Token* at) noexcept {
    const auto two = [&](unsigned first, unsigned second) {
        const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(pairs + first));
        return _mm_loadh_pi(_mm_castsi128_ps(low), reinterpret_cast<const __m64*>(pairs + second));
    };
    // Shuffles within halves part the pairs: lanes 0, 1, 4, 5 and 2, 3, 6, 7 come together.
    const __m256 a = _mm256_set_m128(two(at[3], at[2]), two(at[7], at[6]));
    const __m256 b = _mm256_set_m128(two(at[1], at[0]), two(at[5], at[4]));
    return {_mm256_shuffle_ps(a, b, 0x88), _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xDD))};
}

// Unsigned to binary32, rounded once: the halves are put into the significands of 2^23 and 2^39.
GRADWIRE_INLINE __m256 to_float(__m256i x) noexcept {
    const __m256i low = _mm256_blend_epi16(x, _mm256_set1_epi32(0x4B000000), 0xAA);
    const __m256i high = _mm256_blend_epi16(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(0x53000000), 0xAA);
    const __m256 offset = _mm256_set1_ps(0x1p39f + 0x1p23f);
    return _mm256_add_ps(_mm256_sub_ps(_mm256_castsi256_ps(high), offset), _mm256_castsi256_ps(low));
}

// The states behind a token each; words that leave them go onto the stack.
GRADWIRE_INLINE __m256i encode_step(__m256i x, const Entries& entries, std::uint16_t*& stack) noexcept {
    const __m256i zero = _mm256_setzero_si256();
    const __m256i f = _mm256_blend_epi16(entries.start_frequency, zero, 0xAA);
    const __m256i start = _mm256_srli_epi32(entries.start_frequency, 16);

    const __m256i not_full = _mm256_cmpgt_epi32(f, _mm256_srli_epi32(x, 20));
    const unsigned full = 0xFF ^ static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(not_full)));
    const __m256i low = _mm256_blend_epi16(x, zero, 0xAA);
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    const __m128i shuffle = _mm_load_si128(reinterpret_cast<const __m128i*>(shuffles.compress[full]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(stack), _mm_shuffle_epi8(words, shuffle));
    stack += _mm_popcnt_u32(full);
    const __m256i y = _mm256_srlv_epi32(x, _mm256_andnot_si256(not_full, _mm256_set1_epi32(16)));

    // Too small by 0 or 1 (see below_inverse): the remainder tells.
    const __m256i quotient = _mm256_cvttps_epi32(_mm256_mul_ps(to_float(y), entries.inverse));
    const __m256i remainder = _mm256_sub_epi32(y, _mm256_mullo_epi32(quotient, f));
    const __m256i not_short = _mm256_cmpgt_epi32(f, remainder);
    const __m256i next = _mm256_add_epi32(_mm256_add_epi32(remainder, start), _mm256_slli_epi32(quotient, scale_log2));
    return _mm256_add_epi32(next, _mm256_andnot_si256(not_short, _mm256_sub_epi32(_mm256_set1_epi32(scale), f)));
}

// What gather does, at twice its speed on AMD's Zen 5; slots are below 2^16.
GRADWIRE_INLINE __m256i look_up(const std::uint32_t* table, __m256i slots) noexcept {
    const auto four = [&](__m128i s) {
        const auto low = static_cast<std::uint64_t>(_mm_cvtsi128_si64(s));
        const auto high = static_cast<std::uint64_t>(_mm_extract_epi64(s, 1));
        return _mm_setr_epi32(static_cast<int>(table[low & 0xFFFF]), static_cast<int>(table[low >> 32]),
                              static_cast<int>(table[high & 0xFFFF]), static_cast<int>(table[high >> 32]));
    };
    return _mm256_set_m128i(four(_mm256_extracti128_si256(slots, 1)), four(_mm256_castsi256_si128(slots)));
}

// The states before the tokens of these slots' entries, with the words that they need.
GRADWIRE_INLINE __m256i decode_step(__m256i x, __m256i entry, const std::uint8_t*& next) noexcept {
    const __m256i slot_mask = _mm256_set1_epi32(scale - 1);
    const __m256i f = _mm256_add_epi32(_mm256_and_si256(_mm256_srli_epi32(entry, 8), slot_mask), _mm256_set1_epi32(1));
    const __m256i y = _mm256_add_epi32(_mm256_mullo_epi32(f, _mm256_srli_epi32(x, scale_log2)),
                                       _mm256_srli_epi32(entry, 20));
    const __m256i low = _mm256_cmpeq_epi32(_mm256_srli_epi32(y, 16), _mm256_setzero_si256());
    const auto mask = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(low)));
    const __m256i fresh = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(next)));
    const __m256i order = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(shuffles.expand[mask])));
    next += 2 * _mm_popcnt_u32(mask);
    return _mm256_or_si256(_mm256_sllv_epi32(y, _mm256_and_si256(low, _mm256_set1_epi32(16))),
                           _mm256_and_si256(low, _mm256_permutevar8x32_epi32(fresh, order)));
}

}  // namespace gradwire::avx2
