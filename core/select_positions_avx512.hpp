// The positions of the ones of a 64-bit mask. Only for *_avx512.cpp files: static, so that no other file
// can be linked to this copy.
#pragma once

// GCC 12 warns of its own "undefined" operands (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace gradwire {

// 0, 1, … 63.
[[gnu::always_inline]] static inline __m512i byte_numbers_avx512() noexcept {
    return _mm512_set_epi8(63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41,
                           40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18,
                           17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
}

// Writes first + j for every bit j of the mask, ascending; returns how many. Up to 64 entries of `out` are overwritten,
// sixteen at least.
[[gnu::always_inline]] static inline std::size_t write_positions_avx512(std::uint64_t mask, std::uint32_t first,
                                                                        std::uint32_t* out) noexcept {
    const __m512i taken = _mm512_maskz_compress_epi8(mask, byte_numbers_avx512());
    const __m512i base = _mm512_set1_epi32(static_cast<int>(first));
    const auto store = [&](int quarter, __m128i part) {
        _mm512_storeu_si512(out + 16 * quarter, _mm512_add_epi32(base, _mm512_cvtepu8_epi32(part)));
    };
    const auto count = static_cast<std::size_t>(_mm_popcnt_u64(mask));
    store(0, _mm512_castsi512_si128(taken));
    if (count > 16) {  // rare, or usual: predicted well either way
        store(1, _mm512_extracti32x4_epi32(taken, 1));
        if (count > 32) {
            store(2, _mm512_extracti32x4_epi32(taken, 2));
            if (count > 48) store(3, _mm512_extracti32x4_epi32(taken, 3));
        }
    }
    return count;
}

}  // namespace gradwire
