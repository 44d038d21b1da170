// Integers in context on groups of 16, 32 or 64 lanes, 16 a register. AVX-512 with VBMI2; see rans_avx512.cpp.
// GCC 12 warns of what its own header leaves undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "contextual_lanes.hpp"

namespace gradwire {
namespace {

// The pairs of two symbols. Loads one by one are faster than gather on AMD's Zen 5.
GRADWIRE_INLINE __m128i two(const std::uint64_t* pair, unsigned first, unsigned second) noexcept {
    const __m128d low = _mm_load_sd(reinterpret_cast<const double*>(pair + first));
    return _mm_castpd_si128(_mm_loadh_pd(low, reinterpret_cast<const double*>(pair + second)));
}

// Of the eight symbols at `at`, last to first.
GRADWIRE_INLINE __m512i eight(const std::uint64_t* pair, const std::uint16_t* at) noexcept {
    const __m256i first = _mm256_set_m128i(two(pair, at[5], at[4]), two(pair, at[7], at[6]));
    const __m256i second = _mm256_set_m128i(two(pair, at[1], at[0]), two(pair, at[3], at[2]));
    return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

// Lanes are held in descending order: see rans_avx512.cpp.
template <unsigned registers>
std::uint16_t* encode_groups(const std::uint16_t* symbols, std::size_t groups, const ContextEncodeTable& table,
                             std::uint32_t* states, std::uint16_t* stack) {
    constexpr unsigned lanes = 16 * registers;
    alignas(64) std::uint32_t descending[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) descending[lane] = states[lanes - 1 - lane];
    alignas(64) std::uint32_t evens[16], odds[16];
    for (unsigned i = 0; i < 16; ++i) evens[i] = 2 * i, odds[i] = 2 * i + 1;
    __m512i x[registers];
    for (unsigned r = 0; r < registers; ++r) x[r] = _mm512_load_si512(descending + 16 * r);
    const __m512i even = _mm512_load_si512(evens), odd = _mm512_load_si512(odds);
    const __m512i low16 = _mm512_set1_epi32(0xFFFF);
    const __m512i whole = _mm512_set1_epi32(scale);

    for (std::size_t g = groups; g-- > 0;) {
        const std::uint16_t* at = symbols + g * lanes;
#pragma GCC unroll 4
        for (unsigned r = 0; r < registers; ++r) {
            const std::uint16_t* group = at + lanes - 16 * (r + 1);
            const __m512i last = eight(table.pair, group + 8), first = eight(table.pair, group);
            const __m512 inverse = _mm512_castsi512_ps(_mm512_permutex2var_epi32(last, even, first));
            const __m512i start_frequency = _mm512_permutex2var_epi32(last, odd, first);
            const __m512i f = _mm512_and_si512(start_frequency, low16);
            const __m512i start = _mm512_srli_epi32(start_frequency, 16);

            const __mmask16 full = _mm512_cmpge_epu32_mask(_mm512_srli_epi32(x[r], 20), f);
            const __m256i words = _mm256_maskz_compress_epi16(full, _mm512_cvtepi32_epi16(x[r]));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(stack), words);
            stack += _mm_popcnt_u32(full);
            const __m512i y = _mm512_mask_srli_epi32(x[r], full, x[r], 16);
            // Too small by 0 or 1 (see make_encode_table): the remainder tells.
            const __m512i quotient = _mm512_cvttps_epu32(_mm512_mul_ps(_mm512_cvtepu32_ps(y), inverse));
            const __m512i remainder = _mm512_sub_epi32(y, _mm512_mullo_epi32(quotient, f));
            const __mmask16 short_by_one = _mm512_cmpge_epu32_mask(remainder, f);
            const __m512i next =
                _mm512_add_epi32(_mm512_add_epi32(remainder, start), _mm512_slli_epi32(quotient, scale_log2));
            x[r] = _mm512_mask_add_epi32(next, short_by_one, next, _mm512_sub_epi32(whole, f));
        }
    }
    for (unsigned r = 0; r < registers; ++r) _mm512_store_si512(descending + 16 * r, x[r]);
    for (unsigned lane = 0; lane < lanes; ++lane) states[lane] = descending[lanes - 1 - lane];
    return stack;
}

// What gather does, at 1.6 times its speed on AMD's Zen 5.
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

template <unsigned registers>
std::size_t decode_groups(std::uint32_t* tokens, const std::uint8_t* contexts, std::size_t groups,
                          const ContextDecodeTable& table, std::uint32_t* states, const std::uint8_t*& words,
                          const std::uint8_t* last, std::uint32_t& all) {
    __m512i x[registers];
    for (unsigned r = 0; r < registers; ++r) x[r] = _mm512_loadu_si512(states + 16 * r);
    const __m512i slot_mask = _mm512_set1_epi32(scale - 1);
    const __m512i token_mask = _mm512_set1_epi32(0xFF);
    const __m512i one = _mm512_set1_epi32(1);
    const __m512i lowest = _mm512_set1_epi32(lowest_state);
    __m512i seen = _mm512_setzero_si512();
    const std::uint8_t* next = words;
    std::size_t g = 0;
    for (; g < groups && next <= last; ++g) {
#pragma GCC unroll 4
        for (unsigned r = 0; r < registers; ++r) {
            const __m512i context =
                _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(contexts + 16 * r)));
            const __m512i slot =
                _mm512_or_si512(_mm512_slli_epi32(context, scale_log2), _mm512_and_si512(x[r], slot_mask));
            const __m512i entry = look_up(table.slot, slot);
            const __m512i token = _mm512_and_si512(entry, token_mask);
            seen = _mm512_or_si512(seen, token);
            _mm512_storeu_si512(tokens + 16 * r, token);
            const __m512i f = _mm512_add_epi32(_mm512_and_si512(_mm512_srli_epi32(entry, 8), slot_mask), one);
            const __m512i y = _mm512_add_epi32(_mm512_mullo_epi32(f, _mm512_srli_epi32(x[r], scale_log2)),
                                               _mm512_srli_epi32(entry, 20));
            const __mmask16 low = _mm512_cmplt_epu32_mask(y, lowest);
            const __m512i fresh = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(next)));
            x[r] = _mm512_or_si512(_mm512_mask_slli_epi32(y, low, y, 16), _mm512_maskz_expand_epi32(low, fresh));
            next += 2 * _mm_popcnt_u32(low);
        }
        tokens += 16 * registers;
        contexts += 16 * registers;
    }
    for (unsigned r = 0; r < registers; ++r) _mm512_storeu_si512(states + 16 * r, x[r]);
    words = next;
    alignas(64) std::uint32_t lanes[16];
    _mm512_store_si512(lanes, seen);
    for (const std::uint32_t lane : lanes) all |= lane;
    return g;
}

}  // namespace

void contexts_of_words_avx512(const std::uint32_t* words, std::size_t n, unsigned bits,
                              std::uint8_t* contexts) noexcept {
    shift_words(words, n, bits, contexts);
}

std::size_t plain_symbols_avx512(const std::uint8_t* tokens, const std::uint8_t* contexts, std::size_t m,
                                 const ContextEncodeTable& table, std::uint16_t* symbols) {
    const __m512i plain_below = _mm512_load_si512(table.plain_below);
    std::size_t j = 0;
    for (; j + symbol_piece <= m; j += symbol_piece) {
        const __m512i context = _mm512_loadu_si512(contexts + j), token = _mm512_loadu_si512(tokens + j);
        if (_mm512_cmpge_epu8_mask(token, _mm512_shuffle_epi8(plain_below, context)) != 0) break;
        for (unsigned half = 0; half < 2; ++half) {
            const auto words = [&](const std::uint8_t* of) {
                return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(of + j + 32 * half)));
            };
            _mm512_storeu_si512(symbols + j + 32 * half,
                                _mm512_or_si512(_mm512_slli_epi16(words(contexts), 8), words(tokens)));
        }
    }
    return j;
}

EncodeContextGroups encode_context_groups_avx512(unsigned lanes) noexcept {
    return lanes == 16 ? encode_groups<1> : lanes == 32 ? encode_groups<2> : encode_groups<4>;
}

DecodeContextGroups decode_context_groups_avx512(unsigned lanes) noexcept {
    return lanes == 16 ? decode_groups<1> : lanes == 32 ? decode_groups<2> : decode_groups<4>;
}

}  // namespace gradwire
