// Eight blocks a register, one word in the low half of each 64-bit lane, as in philox_avx2.cpp.
// GCC 12 warns of its own "undefined" operands (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "philox.hpp"

namespace gradwire {

void philox_blocks_avx512(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t blocks,
                          std::uint32_t* out) noexcept {
    constexpr int groups = 4;  // independent registers in flight, to hide the multiplication's latency
    constexpr std::size_t step = 8 * groups;
    const __m512i m0 = _mm512_set1_epi64(philox::multiplier0), m1 = _mm512_set1_epi64(philox::multiplier1);
    const __m512i w0 = _mm512_set1_epi64(philox::weyl0), w1 = _mm512_set1_epi64(philox::weyl1);
    std::size_t i = 0;
    for (; i + step <= blocks; i += step) {
        __m512i c0[groups], c1[groups], c2[groups], c3[groups];
        for (int g = 0; g < groups; ++g) {
            // This order of blocks lets the unpacking at the end leave them in sequence.
            const __m512i number = _mm512_add_epi64(_mm512_set1_epi64(static_cast<long long>(first + i + 8 * g)),
                                                    _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0));
            c0[g] = number;
            c1[g] = _mm512_srli_epi64(number, 32);
            c2[g] = _mm512_set1_epi64(static_cast<long long>(stream));
            c3[g] = _mm512_set1_epi64(static_cast<long long>(stream >> 32));
        }
        __m512i k0 = _mm512_set1_epi64(static_cast<long long>(seed & 0xFFFFFFFFu));
        __m512i k1 = _mm512_set1_epi64(static_cast<long long>(seed >> 32));
#pragma GCC unroll 10
        for (int round = 0; round < philox::rounds; ++round) {
#pragma GCC unroll 4
            for (int g = 0; g < groups; ++g) {
                const __m512i p0 = _mm512_mul_epu32(c0[g], m0), p1 = _mm512_mul_epu32(c2[g], m1);
                c0[g] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), c1[g], k0, 0x96);  // exclusive or of three
                c1[g] = p1;
                c2[g] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c3[g], k1, 0x96);
                c3[g] = p0;
            }
            k0 = _mm512_add_epi32(k0, w0);
            k1 = _mm512_add_epi32(k1, w1);
        }
        for (int g = 0; g < groups; ++g) {
            const __m512i front = _mm512_mask_shuffle_epi32(c0[g], 0xAAAA, c1[g], _MM_PERM_CCAA);
            const __m512i back = _mm512_mask_shuffle_epi32(c2[g], 0xAAAA, c3[g], _MM_PERM_CCAA);
            std::uint32_t* to = out + 4 * i + 32 * g;
            _mm512_storeu_si512(to, _mm512_unpacklo_epi64(front, back));
            _mm512_storeu_si512(to + 16, _mm512_unpackhi_epi64(front, back));
        }
    }
    philox_blocks_portable(seed, stream, first + i, blocks - i, out + 4 * i);
}

}  // namespace gradwire
