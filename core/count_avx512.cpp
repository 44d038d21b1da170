// Counts of tokens by adding one-hot bytes bit by bit: eight tokens, a bit of a byte each, are counted together.
// AVX-512 with VBMI and VBMI2.
// GCC 12 warns of what its own header leaves undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#include <bit>

#include "rans_lanes.hpp"

namespace gradwire {
namespace {

constexpr unsigned at_once = 8;          // tokens that are counted together
constexpr std::size_t width = 64;        // tokens of a register
constexpr std::size_t chunk = 16 * width;
constexpr std::size_t run = 16 * chunk;  // so much is gone through again while it is in the first cache

// Counts of each bit of 64 bytes, in binary: part[i] holds the digits of weight 2^i.
struct Digits {
    __m512i part[4] = {};

    // Adds a and b, of weight 2^i each; returns the carry.
    template <unsigned i>
    GRADWIRE_INLINE __m512i add(__m512i a, __m512i b) noexcept {
        const __m512i carry = _mm512_ternarylogic_epi64(part[i], a, b, 0xE8);
        part[i] = _mm512_ternarylogic_epi64(part[i], a, b, 0x96);
        return carry;
    }

    // Adds 2^i registers of read(first), read(first + 1), …; returns the carry, of weight 2^i.
    template <unsigned i, class Read>
    GRADWIRE_INLINE __m512i add_all(const Read& read, std::size_t first) noexcept {
        if constexpr (i == 0) {
            return read(first);
        } else {
            const __m512i a = add_all<i - 1>(read, first);
            return add<i - 1>(a, add_all<i - 1>(read, first + (1u << (i - 1))));
        }
    }

    std::uint32_t of_bit(unsigned bit) const noexcept {
        std::uint32_t sum = 0;
        for (unsigned i = 0; i < 4; ++i) {
            const __mmask64 ones = _mm512_test_epi8_mask(part[i], _mm512_set1_epi8(static_cast<char>(1u << bit)));
            sum += static_cast<std::uint32_t>(_mm_popcnt_u64(ones)) << i;
        }
        return sum;
    }
};

// Registers of tokens as one-hot bytes: bit s of a byte is set where its token is first + s.
struct OneHot {
    const std::uint8_t* tokens;
    __m512i table, lowest;

    OneHot(const std::uint8_t* tokens_, unsigned first) noexcept
        : tokens(tokens_), lowest(_mm512_set1_epi8(static_cast<char>(first))) {
        alignas(64) std::uint8_t bits[64] = {};
        for (unsigned s = 0; s < at_once; ++s) bits[s] = static_cast<std::uint8_t>(1u << s);
        table = _mm512_load_si512(bits);
    }
    GRADWIRE_INLINE __m512i operator()(std::size_t i) const noexcept {
        const __m512i above = _mm512_sub_epi8(_mm512_loadu_si512(tokens + width * i), lowest);
        return _mm512_permutexvar_epi8(_mm512_min_epu8(above, _mm512_set1_epi8(63)), table);
    }
};

// Counts the tokens first … first + 7 among `count` registers of tokens; returns how many there are.
std::size_t count_eight(const std::uint8_t* tokens, std::size_t count, unsigned first, std::uint32_t* counts) noexcept {
    const OneHot read(tokens, first);
    const __m512i one = _mm512_set1_epi8(1), zero = _mm512_setzero_si512();
    Digits digits, rest;
    __m512i sixteens[at_once];
    for (__m512i& s : sixteens) s = _mm512_setzero_si512();
    std::size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const __m512i carry = digits.add_all<4>(read, i);
#pragma GCC unroll 8
        for (unsigned s = 0; s < at_once; ++s) {
            const __mmask64 there = _mm512_test_epi8_mask(carry, _mm512_set1_epi8(static_cast<char>(1u << s)));
            sixteens[s] = _mm512_mask_add_epi8(sixteens[s], there, sixteens[s], one);
        }
    }
    for (; i < count; ++i)  // fewer than 16: they fit into four digits
        rest.add<3>(rest.add<2>(rest.add<1>(rest.add<0>(read(i), zero), zero), zero), zero);
    std::size_t seen = 0;
    for (unsigned s = 0; s < at_once; ++s) {
        const auto times = static_cast<std::uint32_t>(_mm512_reduce_add_epi64(_mm512_sad_epu8(sixteens[s], zero)));
        const std::uint32_t found = 16 * times + digits.of_bit(s) + rest.of_bit(s);
        counts[s] += found;
        seen += found;
    }
    return seen;
}

}  // namespace

// The tokens of a run: eight at a time, for as long as there are many; the others are picked out one by one.
std::size_t count_tokens_avx512(const std::uint8_t* tokens, std::size_t m, TokenTables& tables) noexcept {
    const std::size_t whole = m / width * width;
    for (std::size_t begin = 0; begin < whole; begin += run) {
        const std::size_t end = begin + run < whole ? begin + run : whole;
        std::size_t left = end - begin;
        unsigned first = 0;
        for (; left > (end - begin) / 256; first += at_once)
            left -= count_eight(tokens + begin, (end - begin) / width, first, tables[0] + first);
        if (left == 0) continue;
        const __m512i low = _mm512_set1_epi8(static_cast<char>(first));
        for (std::size_t j = begin; j < end; j += 4 * width) {
            const std::size_t next = j + 4 * width < end ? j + 4 * width : end;
            __m512i top = _mm512_loadu_si512(tokens + j);
            for (std::size_t i = j + width; i < next; i += width)
                top = _mm512_max_epu8(top, _mm512_loadu_si512(tokens + i));
            if (_mm512_cmpge_epu8_mask(top, low) == 0) continue;
            for (std::size_t i = j; i < next; i += width) {
                auto kept = _cvtmask64_u64(_mm512_cmpge_epu8_mask(_mm512_loadu_si512(tokens + i), low));
                for (; kept != 0; kept &= kept - 1)
                    ++tables[0][tokens[i + static_cast<unsigned>(std::countr_zero(kept))]];
            }
        }
    }
    return whole;
}

}  // namespace gradwire
