// Four blocks a register, one word in the low half of each 64-bit lane: the 32×32 → 64 multiplication reads low
// halves only, so what the upper halves hold never matters and no word has to be moved between lanes.
#include <immintrin.h>

#include "philox.hpp"

namespace gradwire {

void philox_blocks_avx2(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t blocks,
                        std::uint32_t* out) noexcept {
    constexpr int groups = 4;  // independent registers in flight, to hide the multiplication's latency
    constexpr std::size_t step = 4 * groups;
    const __m256i m0 = _mm256_set1_epi64x(philox::multiplier0), m1 = _mm256_set1_epi64x(philox::multiplier1);
    const __m256i w0 = _mm256_set1_epi64x(philox::weyl0), w1 = _mm256_set1_epi64x(philox::weyl1);
    std::size_t i = 0;
    for (; i + step <= blocks; i += step) {
        __m256i c0[groups], c1[groups], c2[groups], c3[groups];
        for (int g = 0; g < groups; ++g) {
            // This order of blocks lets the unpacking at the end leave them in sequence.
            const __m256i number = _mm256_add_epi64(_mm256_set1_epi64x(static_cast<long long>(first + i + 4 * g)),
                                                    _mm256_set_epi64x(3, 1, 2, 0));
            c0[g] = number;
            c1[g] = _mm256_srli_epi64(number, 32);
            c2[g] = _mm256_set1_epi64x(static_cast<long long>(stream));
            c3[g] = _mm256_set1_epi64x(static_cast<long long>(stream >> 32));
        }
        __m256i k0 = _mm256_set1_epi64x(static_cast<long long>(seed & 0xFFFFFFFFu));
        __m256i k1 = _mm256_set1_epi64x(static_cast<long long>(seed >> 32));
#pragma GCC unroll 10
        for (int round = 0; round < philox::rounds; ++round) {
#pragma GCC unroll 4
            for (int g = 0; g < groups; ++g) {
                const __m256i p0 = _mm256_mul_epu32(c0[g], m0), p1 = _mm256_mul_epu32(c2[g], m1);
                c0[g] = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), _mm256_xor_si256(c1[g], k0));
                c1[g] = p1;
                c2[g] = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(c3[g], k1));
                c3[g] = p0;
            }
            k0 = _mm256_add_epi32(k0, w0);
            k1 = _mm256_add_epi32(k1, w1);
        }
        for (int g = 0; g < groups; ++g) {
            const __m256i front = _mm256_blend_epi32(c0[g], _mm256_slli_epi64(c1[g], 32), 0xAA);
            const __m256i back = _mm256_blend_epi32(c2[g], _mm256_slli_epi64(c3[g], 32), 0xAA);
            std::uint32_t* to = out + 4 * i + 16 * g;
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_unpacklo_epi64(front, back));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8), _mm256_unpackhi_epi64(front, back));
        }
    }
    philox_blocks_portable(seed, stream, first + i, blocks - i, out + 4 * i);
}

}  // namespace gradwire
