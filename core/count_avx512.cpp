// AVX-512 with VBMI.
// GCC 12 warns of what its own header leaves undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#include "count_loops.hpp"

namespace gradwire {
namespace {

__m512i same(unsigned byte) noexcept { return _mm512_set1_epi8(static_cast<char>(byte)); }

struct Registers {
    using Value = __m512i;
    static constexpr std::size_t width = 64;

    static Value zero() noexcept { return _mm512_setzero_si512(); }
    static Value load(const std::uint8_t* p) noexcept { return _mm512_loadu_si512(p); }
    static Value sum(Value a, Value b, Value c) noexcept { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }
    static Value majority(Value a, Value b, Value c) noexcept { return _mm512_ternarylogic_epi64(a, b, c, 0xE8); }
    static Value one_hot(Value tokens, unsigned first) noexcept {
        const Value bits = _mm512_zextsi128_si512(_mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0));
        return _mm512_permutexvar_epi8(_mm512_min_epu8(_mm512_sub_epi8(tokens, same(first)), same(63)), bits);
    }
    static Value add_bit(Value counts, Value a, unsigned s) noexcept {
        return _mm512_mask_add_epi8(counts, _mm512_test_epi8_mask(a, same(1u << s)), counts, same(1));
    }
    static std::uint32_t total(Value counts) noexcept {
        return static_cast<std::uint32_t>(_mm512_reduce_add_epi64(_mm512_sad_epu8(counts, zero())));
    }
    static std::uint32_t ones(Value a, unsigned s) noexcept {
        return static_cast<std::uint32_t>(_mm_popcnt_u64(_mm512_test_epi8_mask(a, same(1u << s))));
    }
    static Value largest(Value a, Value b) noexcept { return _mm512_max_epu8(a, b); }
    static std::uint64_t reaching(Value a, unsigned low) noexcept { return _mm512_cmpge_epu8_mask(a, same(low)); }
};

}  // namespace

std::size_t count_tokens_avx512(const std::uint8_t* tokens, std::size_t m, std::uint32_t* counts) noexcept {
    return count_whole_registers<Registers>(tokens, m, counts);
}

}  // namespace gradwire
