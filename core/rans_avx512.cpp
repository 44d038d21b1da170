// rANS on groups of 16, 32 or 64 lanes, 16 a register. AVX-512 with VBMI and VBMI2.
// GCC 12 warns of what its own header leaves undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "rans_lanes.hpp"

namespace gradwire {
namespace {

// Looks up 32-bit entries by token in a table that lies in `registers` registers (0: in memory).
template <unsigned registers>
struct Lookup {
    __m512i part[registers];

    GRADWIRE_INLINE explicit Lookup(const void* table) noexcept {
        for (unsigned i = 0; i < registers; ++i) part[i] = _mm512_load_si512(static_cast<const __m512i*>(table) + i);
    }

    GRADWIRE_INLINE __m512i operator()(__m512i tokens) const noexcept { return at<0, registers>(tokens); }

private:
    template <unsigned first, unsigned count>
    GRADWIRE_INLINE __m512i at(__m512i tokens) const noexcept {
        if constexpr (count == 1) {
            return _mm512_permutexvar_epi32(tokens, part[first]);
        } else if constexpr (count == 2) {
            return _mm512_permutex2var_epi32(part[first], tokens, part[first + 1]);
        } else {
            const __mmask16 upper = _mm512_test_epi32_mask(tokens, _mm512_set1_epi32(8 * count));
            return _mm512_mask_mov_epi32(at<first, count / 2>(tokens), upper, at<first + count / 2, count / 2>(tokens));
        }
    }
};

template <>
struct Lookup<0> {
    const void* table;
    GRADWIRE_INLINE explicit Lookup(const void* t) noexcept : table(t) {}
    GRADWIRE_INLINE __m512i operator()(__m512i tokens) const noexcept { return _mm512_i32gather_epi32(tokens, table, 4); }
};

// Lanes are held in descending order, for that is the order in which their words go onto the stack: then what
// compress leaves at the front of a register is stored as it is, and the next store covers what lies behind it.
template <unsigned registers, unsigned table_registers>
std::uint16_t* encode(const std::uint8_t* tokens, std::size_t groups, const EncodeTable& table, std::uint32_t* states,
                      std::uint16_t* stack, const std::uint8_t* soon) noexcept {
    constexpr unsigned lanes = 16 * registers;
    const Lookup<table_registers> inverse_of(table.inverse);
    const Lookup<table_registers> start_frequency_of(table.start_frequency);

    alignas(64) std::uint32_t descending[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) descending[lane] = states[lanes - 1 - lane];
    alignas(64) std::uint8_t pick[registers][64] = {};
    for (unsigned lane = 0; lane < lanes; ++lane) pick[lane / 16][lane % 16 * 4] = static_cast<std::uint8_t>(lanes - 1 - lane);
    alignas(64) std::uint16_t low_halves[32];
    for (unsigned i = 0; i < 32; ++i) low_halves[i] = static_cast<std::uint16_t>(2 * i);

    __m512i x[registers], picker[registers];
    for (unsigned r = 0; r < registers; ++r) {
        x[r] = _mm512_load_si512(descending + 16 * r);
        picker[r] = _mm512_load_si512(pick[r]);
    }
    const __m512i low_half = _mm512_load_si512(low_halves);
    const __m512i low16 = _mm512_set1_epi32(0xFFFF);
    const __m512i whole = _mm512_set1_epi32(scale);
    const __m512i sixteen_binades = _mm512_set1_epi32(16 << 23);
    constexpr auto every_fourth = __mmask64{0x1111111111111111};

    for (std::size_t g = groups; g-- > 0; soon += 4 * lanes) {
        const std::uint8_t* at = tokens + g * lanes;
        for (unsigned r = 0; r < registers; ++r) __builtin_prefetch(soon + 64 * r);
        __m512i group;
        if constexpr (registers == 4) group = _mm512_loadu_si512(at);
        if constexpr (registers == 2) group = _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
        if constexpr (registers == 1) group = _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));

        __m512i start_frequency[registers], inverse[registers];
        __mmask16 full[registers];
#pragma GCC unroll 4
        for (unsigned r = 0; r < registers; ++r) {
            const __m512i token = _mm512_maskz_permutexvar_epi8(every_fourth, picker[r], group);
            start_frequency[r] = start_frequency_of(token);
            inverse[r] = inverse_of(token);
            full[r] = _mm512_cmpge_epu32_mask(x[r], _mm512_slli_epi32(start_frequency[r], 20));
        }
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
        for (unsigned r = 0; r < registers; ++r) {
            // A group waits for the one before it, so what counts is the way from state to state: where a word is taken
            // off, the quotient is shifted, by its exponent, while the state is still compared.
            __m512i ratio = _mm512_castps_si512(
                _mm512_mul_ps(_mm512_cvtepu32_ps(x[r]), _mm512_castsi512_ps(inverse[r])));
            ratio = _mm512_mask_sub_epi32(ratio, full[r], ratio, sixteen_binades);
            const __m512i quotient = _mm512_cvttps_epi32(_mm512_castsi512_ps(ratio));
            const __m512i y = _mm512_mask_srli_epi32(x[r], full[r], x[r], 16);
            const __m512i f = _mm512_and_si512(start_frequency[r], low16);
            const __m512i start = _mm512_srli_epi32(start_frequency[r], 16);
            const __m512i rest = _mm512_sub_epi32(whole, f);
            // y + quotient·(4096 − f) is quotient·4096 and the remainder. It tells whether the quotient is too small by 1
            // (see make_encode_table); that is taken for granted, and taken back.
            const __m512i both = _mm512_add_epi32(y, _mm512_mullo_epi32(quotient, rest));
            const __m512i remainder = _mm512_sub_epi32(both, _mm512_slli_epi32(quotient, scale_log2));
            const __m512i next = _mm512_add_epi32(both, _mm512_add_epi32(start, rest));
            x[r] = _mm512_mask_sub_epi32(next, _mm512_cmplt_epu32_mask(remainder, f), next, rest);
        }
    }
    for (unsigned r = 0; r < registers; ++r) _mm512_store_si512(descending + 16 * r, x[r]);
    for (unsigned lane = 0; lane < lanes; ++lane) states[lane] = descending[lanes - 1 - lane];
    return stack;
}

template <unsigned registers>
std::uint16_t* encode_groups(const std::uint8_t* tokens, std::size_t groups, const EncodeTable& table,
                             std::uint32_t* states, std::uint16_t* stack, const std::uint8_t* soon) {
    if (table.top < 16) return encode<registers, 1>(tokens, groups, table, states, stack, soon);
    if (table.top < 32) return encode<registers, 2>(tokens, groups, table, states, stack, soon);
    if (table.top < 64) return encode<registers, 4>(tokens, groups, table, states, stack, soon);
    if (table.top < 128) return encode<registers, 8>(tokens, groups, table, states, stack, soon);
    return encode<registers, 0>(tokens, groups, table, states, stack, soon);
}

// What gather does, at 1.6 times its speed on AMD's Zen 5.
GRADWIRE_INLINE __m512i look_up(const DecodeTable& table, __m512i slots) noexcept {
    const auto four = [&](__m128i s) {
        const auto low = static_cast<std::uint64_t>(_mm_cvtsi128_si64(s));
        const auto high = static_cast<std::uint64_t>(_mm_extract_epi64(s, 1));
        return _mm_setr_epi32(static_cast<int>(table.slot[low & 0xFFFF]), static_cast<int>(table.slot[low >> 32]),
                              static_cast<int>(table.slot[high & 0xFFFF]), static_cast<int>(table.slot[high >> 32]));
    };
    const __m256i lower = _mm512_castsi512_si256(slots), upper = _mm512_extracti64x4_epi64(slots, 1);
    const __m256i a = _mm256_set_m128i(four(_mm256_extracti128_si256(lower, 1)), four(_mm256_castsi256_si128(lower)));
    const __m256i b = _mm256_set_m128i(four(_mm256_extracti128_si256(upper, 1)), four(_mm256_castsi256_si128(upper)));
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

template <unsigned registers>
std::size_t decode_groups(std::uint8_t* tokens, std::size_t groups, const DecodeTable& table, std::uint32_t* states,
                          const std::uint8_t*& words, const std::uint8_t* last) {
    __m512i x[registers];
    for (unsigned r = 0; r < registers; ++r) x[r] = _mm512_loadu_si512(states + 16 * r);
    const __m512i slot_mask = _mm512_set1_epi32(scale - 1);
    const __m512i one = _mm512_set1_epi32(1);
    const __m512i lowest = _mm512_set1_epi32(lowest_state);
    const std::uint8_t* next = words;
    std::size_t g = 0;
    for (; g < groups && next <= last; ++g) {
#pragma GCC unroll 4
        for (unsigned r = 0; r < registers; ++r) {
            const __m512i entry = look_up(table, _mm512_and_si512(x[r], slot_mask));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(tokens + 16 * r), _mm512_cvtepi32_epi8(entry));
            const __m512i f = _mm512_add_epi32(_mm512_and_si512(_mm512_srli_epi32(entry, 8), slot_mask), one);
            const __m512i y = _mm512_add_epi32(_mm512_mullo_epi32(f, _mm512_srli_epi32(x[r], scale_log2)),
                                               _mm512_srli_epi32(entry, 20));
            const __mmask16 low = _mm512_cmplt_epu32_mask(y, lowest);
            const __m512i fresh = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(next)));
            x[r] = _mm512_or_si512(_mm512_mask_slli_epi32(y, low, y, 16), _mm512_maskz_expand_epi32(low, fresh));
            next += 2 * _mm_popcnt_u32(low);
        }
        tokens += 16 * registers;
    }
    for (unsigned r = 0; r < registers; ++r) _mm512_storeu_si512(states + 16 * r, x[r]);
    words = next;
    return g;
}

}  // namespace

EncodeGroups encode_groups_avx512(unsigned lanes) noexcept {
    return lanes == 16 ? encode_groups<1> : lanes == 32 ? encode_groups<2> : encode_groups<4>;
}

DecodeGroups decode_groups_avx512(unsigned lanes) noexcept {
    return lanes == 16 ? decode_groups<1> : lanes == 32 ? decode_groups<2> : decode_groups<4>;
}

}  // namespace gradwire
