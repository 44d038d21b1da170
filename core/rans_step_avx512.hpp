// Steps of rANS in 16 lanes a register, which rans_avx512.cpp and contextual_avx512.cpp share. AVX-512 with VBMI2.
// GCC 12 warns of what its own header leaves undefined on purpose.
#pragma once
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "rans_lanes.hpp"

namespace gradwire::avx512 {

// Of a token: a little below 1 / f, as binary32; start << 16 | f.
struct Entries {
    __m512i inverse, start_frequency;
};

// The states behind a token each; full tells from which a word has been taken off to the stack, not yet from x.
GRADWIRE_INLINE __m512i encode_step(__m512i x, __mmask16 full, const Entries& entries) noexcept {
    // A group waits for the one before it, so what counts is the way from state to state: where a word is taken off, the
    // quotient is shifted, by its exponent, while the state is still compared.
    const __m512i sixteen_binades = _mm512_set1_epi32(16 << 23);
    __m512i ratio =
        _mm512_castps_si512(_mm512_mul_ps(_mm512_cvtepu32_ps(x), _mm512_castsi512_ps(entries.inverse)));
    ratio = _mm512_mask_sub_epi32(ratio, full, ratio, sixteen_binades);
    const __m512i quotient = _mm512_cvttps_epi32(_mm512_castsi512_ps(ratio));
    const __m512i y = _mm512_mask_srli_epi32(x, full, x, 16);
    const __m512i f = _mm512_and_si512(entries.start_frequency, _mm512_set1_epi32(0xFFFF));
    const __m512i start = _mm512_srli_epi32(entries.start_frequency, 16);
    const __m512i rest = _mm512_sub_epi32(_mm512_set1_epi32(scale), f);
    // y + quotient·(4096 − f) is quotient·4096 and the remainder. It tells whether the quotient is too small by 1 (see
    // below_inverse); that is taken for granted, and taken back.
    const __m512i both = _mm512_add_epi32(y, _mm512_mullo_epi32(quotient, rest));
    const __m512i remainder = _mm512_sub_epi32(both, _mm512_slli_epi32(quotient, scale_log2));
    const __m512i next = _mm512_add_epi32(both, _mm512_add_epi32(start, rest));
    return _mm512_mask_sub_epi32(next, _mm512_cmplt_epu32_mask(remainder, f), next, rest);
}

// x ≥ f·2^20: a word has to go. With f = 4096, which needs `alone`, none has: there 2^32 wraps to 0, and 0 − 1 is above
// all states.
template <bool alone>
GRADWIRE_INLINE __mmask16 is_full(__m512i x, __m512i start_frequency) noexcept {
    const __m512i limit = _mm512_slli_epi32(start_frequency, 20);
    return alone ? _mm512_cmpgt_epu32_mask(x, _mm512_sub_epi32(limit, _mm512_set1_epi32(1)))
                 : _mm512_cmpge_epu32_mask(x, limit);
}

// Groups of 16·registers tokens, last to first; entries_of(g, entries) gets those of the group's tokens. Returns the
// stack's top. With `alone` a token may be the only one of its table. 64 bytes a register from `soon` on are asked for
// into the cache with each group.
//
// Lanes are held in descending order, for that is the order in which their words go onto the stack: then what
// compress leaves at the front of a register is stored as it is, and the next store covers what lies behind it.
template <unsigned registers, bool alone, class EntriesOf>
GRADWIRE_INLINE std::uint16_t* encode(std::size_t groups, std::uint32_t* states, std::uint16_t* stack,
                                      const std::uint8_t* soon, const EntriesOf& entries_of) noexcept {
    alignas(64) std::uint32_t reverse[16];
    for (unsigned i = 0; i < 16; ++i) reverse[i] = 15 - i;
    alignas(64) std::uint16_t low_halves[32];
    for (unsigned i = 0; i < 32; ++i) low_halves[i] = static_cast<std::uint16_t>(2 * i);
    const __m512i descending = _mm512_load_si512(reverse), low_half = _mm512_load_si512(low_halves);

    __m512i x[registers];
    for (unsigned r = 0; r < registers; ++r)
        x[r] = _mm512_permutexvar_epi32(descending, _mm512_loadu_si512(states + 16 * (registers - 1 - r)));
    for (std::size_t g = groups; g-- > 0; soon += 64 * registers) {
        for (unsigned r = 0; r < registers; ++r) __builtin_prefetch(soon + 64 * r);
        Entries entries[registers];
        entries_of(g, entries);
        __mmask16 full[registers];
#pragma GCC unroll 4
        for (unsigned r = 0; r < registers; ++r)
            full[r] = is_full<alone>(x[r], entries[r].start_frequency);
        if constexpr (registers == 1) {
            const __m256i words = _mm256_maskz_compress_epi16(full[0], _mm512_cvtepi32_epi16(x[0]));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(stack), words);
            stack += _mm_popcnt_u32(full[0]);
        } else {
#pragma GCC unroll 2
            for (unsigned r = 0; r < registers; r += 2) {
                const __mmask32 both = _mm512_kunpackw(full[r + 1], full[r]);
                const __m512i words = _mm512_permutex2var_epi16(x[r], low_half, x[r + 1]);
                _mm512_storeu_si512(stack, _mm512_maskz_compress_epi16(both, words));
                stack += _mm_popcnt_u32(both);
            }
        }
#pragma GCC unroll 4
        for (unsigned r = 0; r < registers; ++r) x[r] = encode_step(x[r], full[r], entries[r]);
    }
    for (unsigned r = 0; r < registers; ++r)
        _mm512_storeu_si512(states + 16 * (registers - 1 - r), _mm512_permutexvar_epi32(descending, x[r]));
    return stack;
}

// What gather does, at 1.6 times its speed on AMD's Zen 5; slots are below 2^16.
GRADWIRE_INLINE __m512i look_up(const std::uint32_t* table, __m512i slots) noexcept {
    const auto four = [&](__m128i s) {
        const auto low = static_cast<std::uint64_t>(_mm_cvtsi128_si64(s));
        const auto high = static_cast<std::uint64_t>(_mm_extract_epi64(s, 1));
        return _mm_setr_epi32(static_cast<int>(table[low & 0xFFFF]), static_cast<int>(table[low >> 32]),
                              static_cast<int>(table[high & 0xFFFF]), static_cast<int>(table[high >> 32]));
    };
    const __m256i lower = _mm512_castsi512_si256(slots), upper = _mm512_extracti64x4_epi64(slots, 1);
    const __m256i a = _mm256_set_m128i(four(_mm256_extracti128_si256(lower, 1)), four(_mm256_castsi256_si128(lower)));
    const __m256i b = _mm256_set_m128i(four(_mm256_extracti128_si256(upper, 1)), four(_mm256_castsi256_si128(upper)));
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

// The states before the tokens of these slots' entries, with the words that they need.
GRADWIRE_INLINE __m512i decode_step(__m512i x, __m512i entry, const std::uint8_t*& next) noexcept {
    const __m512i slot_mask = _mm512_set1_epi32(scale - 1);
    const __m512i f = _mm512_add_epi32(_mm512_and_si512(_mm512_srli_epi32(entry, 8), slot_mask), _mm512_set1_epi32(1));
    const __m512i y = _mm512_add_epi32(_mm512_mullo_epi32(f, _mm512_srli_epi32(x, scale_log2)),
                                       _mm512_srli_epi32(entry, 20));
    const __mmask16 low = _mm512_cmplt_epu32_mask(y, _mm512_set1_epi32(lowest_state));
    const __m512i fresh = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(next)));
    next += 2 * _mm_popcnt_u32(low);
    return _mm512_or_si512(_mm512_mask_slli_epi32(y, low, y, 16), _mm512_maskz_expand_epi32(low, fresh));
}

}  // namespace gradwire::avx512
