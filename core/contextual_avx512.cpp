// Integers in context on groups of 16, 32 or 64 lanes, 16 a register. AVX-512 with VBMI2.
#include "contextual_lanes.hpp"
#include "rans_step_avx512.hpp"

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

template <unsigned registers>
std::uint16_t* encode_groups(const std::uint16_t* symbols, std::size_t groups, const ContextEncodeTable& table,
                             std::uint32_t* states, std::uint16_t* stack) {
    constexpr unsigned lanes = 16 * registers;
    alignas(64) std::uint32_t evens[16], odds[16];
    for (unsigned i = 0; i < 16; ++i) evens[i] = 2 * i, odds[i] = 2 * i + 1;
    const __m512i even = _mm512_load_si512(evens), odd = _mm512_load_si512(odds);
    const auto* const soon = reinterpret_cast<const std::uint8_t*>(stack);
    return avx512::encode<registers, true>(groups, states, stack, soon, [&](std::size_t g, avx512::Entries* entries) {
#pragma GCC unroll 4
        for (unsigned r = 0; r < registers; ++r) {
            const std::uint16_t* const at = symbols + g * lanes + lanes - 16 * (r + 1);
            const __m512i last = eight(table.pair, at + 8), first = eight(table.pair, at);
            entries[r] = {_mm512_permutex2var_epi32(last, even, first), _mm512_permutex2var_epi32(last, odd, first)};
        }
    });
}

template <unsigned registers>
std::size_t decode_groups(std::uint32_t* tokens, const std::uint8_t* contexts, std::size_t groups,
                          const ContextDecodeTable& table, std::uint32_t* states, const std::uint8_t*& words,
                          const std::uint8_t* last, std::uint32_t& all) {
    __m512i x[registers];
    for (unsigned r = 0; r < registers; ++r) x[r] = _mm512_loadu_si512(states + 16 * r);
    __m512i seen = _mm512_setzero_si512();
    const std::uint8_t* next = words;
    std::size_t g = 0;
    for (; g < groups && next <= last; ++g) {
#pragma GCC unroll 4
        for (unsigned r = 0; r < registers; ++r) {
            const __m512i context =
                _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(contexts + 16 * r)));
            const __m512i slot = _mm512_or_si512(_mm512_slli_epi32(context, scale_log2),
                                                 _mm512_and_si512(x[r], _mm512_set1_epi32(scale - 1)));
            const __m512i entry = avx512::look_up(table.slot, slot);
            const __m512i token = _mm512_and_si512(entry, _mm512_set1_epi32(0xFF));
            seen = _mm512_or_si512(seen, token);
            _mm512_storeu_si512(tokens + 16 * r, token);
            x[r] = avx512::decode_step(x[r], entry, next);
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
