// rANS on groups of 16, 32 or 64 lanes, 16 a register. AVX-512 with VBMI and VBMI2.
#include "rans_step_avx512.hpp"

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

template <unsigned registers, unsigned table_registers>
std::uint16_t* encode(const std::uint8_t* tokens, std::size_t groups, const EncodeTable& table, std::uint32_t* states,
                      std::uint16_t* stack, const std::uint8_t* soon) noexcept {
    constexpr unsigned lanes = 16 * registers;
    const Lookup<table_registers> inverse_of(table.inverse);
    const Lookup<table_registers> start_frequency_of(table.start_frequency);
    alignas(64) std::uint8_t pick[registers][64] = {};
    for (unsigned lane = 0; lane < lanes; ++lane) pick[lane / 16][lane % 16 * 4] = static_cast<std::uint8_t>(lanes - 1 - lane);
    __m512i picker[registers];
    for (unsigned r = 0; r < registers; ++r) picker[r] = _mm512_load_si512(pick[r]);
    constexpr auto every_fourth = __mmask64{0x1111111111111111};
    return avx512::encode<registers, false>(groups, states, stack, soon, [&](std::size_t g, avx512::Entries* entries) {
        const std::uint8_t* at = tokens + g * lanes;
        __m512i group;
        if constexpr (registers == 4) group = _mm512_loadu_si512(at);
        if constexpr (registers == 2) group = _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
        if constexpr (registers == 1) group = _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
#pragma GCC unroll 4
        for (unsigned r = 0; r < registers; ++r) {
            const __m512i token = _mm512_maskz_permutexvar_epi8(every_fourth, picker[r], group);
            entries[r] = {inverse_of(token), start_frequency_of(token)};
        }
    });
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

template <unsigned registers>
std::size_t decode_groups(std::uint8_t* tokens, std::size_t groups, const DecodeTable& table, std::uint32_t* states,
                          const std::uint8_t*& words, const std::uint8_t* last) {
    __m512i x[registers];
    for (unsigned r = 0; r < registers; ++r) x[r] = _mm512_loadu_si512(states + 16 * r);
    const std::uint8_t* next = words;
    std::size_t g = 0;
    for (; g < groups && next <= last; ++g) {
#pragma GCC unroll 4
        for (unsigned r = 0; r < registers; ++r) {
            const __m512i entry = avx512::look_up(table.slot, _mm512_and_si512(x[r], _mm512_set1_epi32(scale - 1)));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(tokens + 16 * r), _mm512_cvtepi32_epi8(entry));
            x[r] = avx512::decode_step(x[r], entry, next);
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
