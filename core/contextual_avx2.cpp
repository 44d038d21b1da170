// Integers in context on groups of 16, 32 or 64 lanes, 8 a register. AVX2.
#include "contextual_lanes.hpp"
#include "rans_step_avx2.hpp"

namespace gradwire {
namespace {

template <unsigned registers>
std::uint16_t* encode_groups(const std::uint16_t* symbols, std::size_t groups, const ContextEncodeTable& table,
                             std::uint32_t* states, std::uint16_t* stack) {
    constexpr unsigned lanes = 8 * registers;
    __m256i x[registers];
    avx2::load_descending(x, states);
    for (std::size_t g = groups; g-- > 0;) {
#pragma GCC unroll 8
        for (unsigned r = 0; r < registers; ++r)
            x[r] = avx2::encode_step(x[r], avx2::entries_of(table.pair, symbols + g * lanes + lanes - 8 * (r + 1)), stack);
    }
    avx2::store_descending(x, states);
    return stack;
}

template <unsigned registers>
std::size_t decode_groups(std::uint32_t* tokens, const std::uint8_t* contexts, std::size_t groups,
                          const ContextDecodeTable& table, std::uint32_t* states, const std::uint8_t*& words,
                          const std::uint8_t* last, std::uint32_t& all) {
    __m256i x[registers];
    for (unsigned r = 0; r < registers; ++r) x[r] = _mm256_loadu_si256(reinterpret_cast<__m256i*>(states + 8 * r));
    __m256i seen = _mm256_setzero_si256();
    const std::uint8_t* next = words;
    std::size_t g = 0;
    for (; g < groups && next <= last; ++g) {
#pragma GCC unroll 8
        for (unsigned r = 0; r < registers; ++r) {
            const __m256i context =
                _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(contexts + 8 * r)));
            const __m256i slot = _mm256_or_si256(_mm256_slli_epi32(context, scale_log2),
                                                 _mm256_and_si256(x[r], _mm256_set1_epi32(scale - 1)));
            const __m256i entry = avx2::look_up(table.slot, slot);
            const __m256i token = _mm256_and_si256(entry, _mm256_set1_epi32(0xFF));
            seen = _mm256_or_si256(seen, token);
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(tokens + 8 * r), token);
            x[r] = avx2::decode_step(x[r], entry, next);
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
