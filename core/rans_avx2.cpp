// rANS on groups of 16, 32 or 64 lanes, 8 a register. AVX2.
#include "rans_step_avx2.hpp"

namespace gradwire {
namespace {

template <unsigned registers>
std::uint16_t* encode_groups(const std::uint8_t* tokens, std::size_t groups, const EncodeTable& table,
                             std::uint32_t* states, std::uint16_t* stack, const std::uint8_t*) {
    constexpr unsigned lanes = 8 * registers;
    std::uint64_t pairs[token_limit];
    for (unsigned s = 0; s <= table.top; ++s) pairs[s] = pair_of(table.start_frequency[s], table.inverse[s]);
    __m256i x[registers];
    avx2::load_descending(x, states);
    for (std::size_t g = groups; g-- > 0;) {
#pragma GCC unroll 8
        for (unsigned r = 0; r < registers; ++r)
            x[r] = avx2::encode_step(x[r], avx2::entries_of(pairs, tokens + g * lanes + lanes - 8 * (r + 1)), stack);
    }
    avx2::store_descending(x, states);
    return stack;
}

template <unsigned registers>
std::size_t decode_groups(std::uint8_t* tokens, std::size_t groups, const DecodeTable& table, std::uint32_t* states,
                          const std::uint8_t*& words, const std::uint8_t* last) {
    __m256i x[registers];
    for (unsigned r = 0; r < registers; ++r) x[r] = _mm256_loadu_si256(reinterpret_cast<__m256i*>(states + 8 * r));
    const __m256i first_bytes = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  //
                                                 -1, -1, -1, -1, 0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1);
    const std::uint8_t* next = words;
    std::size_t g = 0;
    for (; g < groups && next <= last; ++g) {
#pragma GCC unroll 8
        for (unsigned r = 0; r < registers; ++r) {
            const __m256i slot = _mm256_and_si256(x[r], _mm256_set1_epi32(scale - 1));
            const __m256i entry = avx2::look_up(table.slot, slot);
            const __m256i bytes = _mm256_shuffle_epi8(entry, first_bytes);
            _mm_storel_epi64(reinterpret_cast<__m128i*>(tokens + 8 * r),
                             _mm_or_si128(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)));
            x[r] = avx2::decode_step(x[r], entry, next);
        }
        tokens += 8 * registers;
    }
    for (unsigned r = 0; r < registers; ++r) _mm256_storeu_si256(reinterpret_cast<__m256i*>(states + 8 * r), x[r]);
    words = next;
    return g;
}

}  // namespace

EncodeGroups encode_groups_avx2(unsigned lanes) noexcept {
    return lanes == 16 ? encode_groups<2> : lanes == 32 ? encode_groups<4> : encode_groups<8>;
}

DecodeGroups decode_groups_avx2(unsigned lanes) noexcept {
    return lanes == 16 ? decode_groups<2> : lanes == 32 ? decode_groups<4> : decode_groups<8>;
}

}  // namespace gradwire
