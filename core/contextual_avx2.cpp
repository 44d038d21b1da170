// Integers in context on groups of 16, 32 or 64 lanes, 8 a register. AVX2; see rans_avx2.cpp.
#include <immintrin.h>

#include "contextual_lanes.hpp"

namespace gradwire {
namespace {

// AVX2 has no compress and expand: for each mask of 8 lanes, the shuffle that does it.
struct Shuffles {
    alignas(16) std::uint8_t compress[256][16];  // of 16-bit words: the chosen ones to the front
    std::uint8_t expand[256][8];                 // of 32-bit lanes: chosen lane number i takes entry i
};

constexpr Shuffles make_shuffles() noexcept {
    Shuffles result{};
    for (unsigned mask = 0; mask < 256; ++mask) {
        unsigned chosen = 0;
        for (unsigned lane = 0; lane < 8; ++lane) {
            result.expand[mask][lane] = static_cast<std::uint8_t>(chosen & 7);
            if ((mask >> lane & 1) == 0) continue;
            result.compress[mask][2 * chosen] = static_cast<std::uint8_t>(2 * lane);
            result.compress[mask][2 * chosen + 1] = static_cast<std::uint8_t>(2 * lane + 1);
            ++chosen;
        }
    }
    return result;
}

constexpr Shuffles shuffles = make_shuffles();

// The pairs of two symbols. Loads one by one are faster than gather on AMD's Zen 5.
GRADWIRE_INLINE __m128 two(const std::uint64_t* pair, unsigned first, unsigned second) noexcept {
    const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(pair + first));
    return _mm_loadh_pi(_mm_castsi128_ps(low), reinterpret_cast<const __m64*>(pair + second));
}

// Unsigned to binary32, rounded once: the halves are put into the significands of 2^23 and 2^39.
GRADWIRE_INLINE __m256 to_float(__m256i x) noexcept {
    const __m256i low = _mm256_blend_epi16(x, _mm256_set1_epi32(0x4B000000), 0xAA);
    const __m256i high = _mm256_blend_epi16(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(0x53000000), 0xAA);
    const __m256 offset = _mm256_set1_ps(0x1p39f + 0x1p23f);
    return _mm256_add_ps(_mm256_sub_ps(_mm256_castsi256_ps(high), offset), _mm256_castsi256_ps(low));
}

// Lanes are held in descending order: see rans_avx512.cpp.
template <unsigned registers>
std::uint16_t* encode_groups(const std::uint16_t* symbols, std::size_t groups, const ContextEncodeTable& table,
                             std::uint32_t* states, std::uint16_t* stack) {
    constexpr unsigned lanes = 8 * registers;
    alignas(32) std::uint32_t descending[lanes];
    for (unsigned lane = 0; lane < lanes; ++lane) descending[lane] = states[lanes - 1 - lane];
    __m256i x[registers];
    for (unsigned r = 0; r < registers; ++r) x[r] = _mm256_load_si256(reinterpret_cast<__m256i*>(descending + 8 * r));
    const __m256i whole = _mm256_set1_epi32(scale);
    const __m256i sixteen = _mm256_set1_epi32(16);
    const __m256i zero = _mm256_setzero_si256();

    for (std::size_t g = groups; g-- > 0;) {
        const std::uint16_t* group = symbols + g * lanes;
#pragma GCC unroll 8
        for (unsigned r = 0; r < registers; ++r) {
            const std::uint16_t* at = group + lanes - 8 * (r + 1);
            // Shuffles within halves part the pairs: lanes 0, 1, 4, 5 and 2, 3, 6, 7 come together.
            const __m256 a = _mm256_set_m128(two(table.pair, at[3], at[2]), two(table.pair, at[7], at[6]));
            const __m256 b = _mm256_set_m128(two(table.pair, at[1], at[0]), two(table.pair, at[5], at[4]));
            const __m256 inverse = _mm256_shuffle_ps(a, b, 0x88);
            const __m256i start_frequency = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xDD));
            const __m256i f = _mm256_blend_epi16(start_frequency, zero, 0xAA);
            const __m256i start = _mm256_srli_epi32(start_frequency, 16);

            const __m256i not_full = _mm256_cmpgt_epi32(f, _mm256_srli_epi32(x[r], 20));
            const unsigned full = 0xFF ^ static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(not_full)));
            const __m256i low = _mm256_blend_epi16(x[r], zero, 0xAA);
            const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
            const __m128i shuffle = _mm_load_si128(reinterpret_cast<const __m128i*>(shuffles.compress[full]));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(stack), _mm_shuffle_epi8(words, shuffle));
            stack += _mm_popcnt_u32(full);
            const __m256i y = _mm256_srlv_epi32(x[r], _mm256_andnot_si256(not_full, sixteen));

            // Too small by 0 or 1 (see make_encode_table): the remainder tells.
            const __m256i quotient = _mm256_cvttps_epi32(_mm256_mul_ps(to_float(y), inverse));
            const __m256i remainder = _mm256_sub_epi32(y, _mm256_mullo_epi32(quotient, f));
            const __m256i not_short = _mm256_cmpgt_epi32(f, remainder);
            const __m256i next =
                _mm256_add_epi32(_mm256_add_epi32(remainder, start), _mm256_slli_epi32(quotient, scale_log2));
            x[r] = _mm256_add_epi32(next, _mm256_andnot_si256(not_short, _mm256_sub_epi32(whole, f)));
        }
    }
    for (unsigned r = 0; r < registers; ++r) _mm256_store_si256(reinterpret_cast<__m256i*>(descending + 8 * r), x[r]);
    for (unsigned lane = 0; lane < lanes; ++lane) states[lane] = descending[lanes - 1 - lane];
    return stack;
}

// What gather does, at twice its speed on AMD's Zen 5.
GRADWIRE_INLINE __m256i look_up(const std::uint32_t* table, __m256i slots) noexcept {
    const auto four = [&](__m128i s) {
        const auto low = static_cast<std::uint64_t>(_mm_cvtsi128_si64(s));
        const auto high = static_cast<std::uint64_t>(_mm_extract_epi64(s, 1));
        return _mm_setr_epi32(static_cast<int>(table[low & 0xFFFF]), static_cast<int>(table[low >> 32]),
                              static_cast<int>(table[high & 0xFFFF]), static_cast<int>(table[high >> 32]));
    };
    return _mm256_set_m128i(four(_mm256_extracti128_si256(slots, 1)), four(_mm256_castsi256_si128(slots)));
}

template <unsigned registers>
std::size_t decode_groups(std::uint32_t* tokens, const std::uint8_t* contexts, std::size_t groups,
                          const ContextDecodeTable& table, std::uint32_t* states, const std::uint8_t*& words,
                          const std::uint8_t* last, std::uint32_t& all) {
    __m256i x[registers];
    for (unsigned r = 0; r < registers; ++r) x[r] = _mm256_loadu_si256(reinterpret_cast<__m256i*>(states + 8 * r));
    const __m256i slot_mask = _mm256_set1_epi32(scale - 1);
    const __m256i token_mask = _mm256_set1_epi32(0xFF);
    const __m256i one = _mm256_set1_epi32(1);
    const __m256i sixteen = _mm256_set1_epi32(16);
    const __m256i zero = _mm256_setzero_si256();
    __m256i seen = zero;
    const std::uint8_t* next = words;
    std::size_t g = 0;
    for (; g < groups && next <= last; ++g) {
#pragma GCC unroll 8
        for (unsigned r = 0; r < registers; ++r) {
            const __m256i context =
                _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(contexts + 8 * r)));
            const __m256i slot =
                _mm256_or_si256(_mm256_slli_epi32(context, scale_log2), _mm256_and_si256(x[r], slot_mask));
            const __m256i entry = look_up(table.slot, slot);
            const __m256i token = _mm256_and_si256(entry, token_mask);
            seen = _mm256_or_si256(seen, token);
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(tokens + 8 * r), token);
            const __m256i f = _mm256_add_epi32(_mm256_and_si256(_mm256_srli_epi32(entry, 8), slot_mask), one);
            const __m256i y = _mm256_add_epi32(_mm256_mullo_epi32(f, _mm256_srli_epi32(x[r], scale_log2)),
                                               _mm256_srli_epi32(entry, 20));
            const __m256i low = _mm256_cmpeq_epi32(_mm256_srli_epi32(y, 16), zero);
            const auto mask = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(low)));
            const __m256i fresh = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(next)));
            const __m256i order =
                _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(shuffles.expand[mask])));
            x[r] = _mm256_or_si256(_mm256_sllv_epi32(y, _mm256_and_si256(low, sixteen)),
                                   _mm256_and_si256(low, _mm256_permutevar8x32_epi32(fresh, order)));
            next += 2 * _mm_popcnt_u32(mask);
        }
        tokens += 8 * registers;
        contexts += 8 * registers;
    }
    for (unsigned r = 0; r < registers; ++r) _mm256_storeu_si256(reinterpret_cast<__m256i*>(states + 8 * r), x[r]);
    words = next;
    alignas(32) std::uint32_t lanes[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), seen);
    for (const std::uint32_t lane : lanes) all |= lane;
    return g;
}

}  // namespace

void contexts_of_words_avx2(const std::uint32_t* words, std::size_t n, unsigned bits,
                            std::uint8_t* contexts) noexcept {
    shift_words(words, n, bits, contexts);
}

std::size_t plain_symbols_avx2(const std::uint8_t* tokens, const std::uint8_t* contexts, std::size_t m,
                               const ContextEncodeTable& table, std::uint16_t* symbols) {
    const __m256i plain_below = _mm256_load_si256(reinterpret_cast<const __m256i*>(table.plain_below));
    std::size_t j = 0;
    for (; j + symbol_piece <= m; j += symbol_piece) {
        __m256i others = _mm256_setzero_si256();
        for (std::size_t i = j; i < j + symbol_piece; i += 32) {
            const __m256i token = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tokens + i));
            const __m256i context = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(contexts + i));
            const __m256i below = _mm256_shuffle_epi8(plain_below, context);
            // token < below just where token + 1 − below saturates to 0.
            const __m256i above = _mm256_adds_epu8(token, _mm256_set1_epi8(1));
            others = _mm256_or_si256(others, _mm256_subs_epu8(above, below));
            const auto symbol = [](__m128i of, __m128i number) {
                return _mm256_or_si256(_mm256_slli_epi16(_mm256_cvtepu8_epi16(of), 8), _mm256_cvtepu8_epi16(number));
            };
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(symbols + i),
                                symbol(_mm256_castsi256_si128(context), _mm256_castsi256_si128(token)));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(symbols + i + 16),
                                symbol(_mm256_extracti128_si256(context, 1), _mm256_extracti128_si256(token, 1)));
        }
        if (!_mm256_testz_si256(others, others)) break;
    }
    return j;
}

EncodeContextGroups encode_context_groups_avx2(unsigned lanes) noexcept {
    return lanes == 16 ? encode_groups<2> : lanes == 32 ? encode_groups<4> : encode_groups<8>;
}

DecodeContextGroups decode_context_groups_avx2(unsigned lanes) noexcept {
    return lanes == 16 ? decode_groups<2> : lanes == 32 ? decode_groups<4> : decode_groups<8>;
}

}  // namespace gradwire
