// The positions of the ones of a 64-bit mask. Only for *_avx2.cpp files: static, so that no other file can
// be linked to this copy.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace gradwire {

// For each byte the positions of its ones, ascending, a byte each.
struct BytePositions {
    std::uint64_t of[256];
};

static constexpr BytePositions byte_positions = [] {
    BytePositions table{};
    for (unsigned v = 0; v < 256; ++v) {
        unsigned shift = 0;
        for (std::uint64_t bit = 0; bit < 8; ++bit)
            if (v >> bit & 1) {
                table.of[v] |= bit << shift;
                shift += 8;
            }
    }
    return table;
}();

// Writes first + j for every bit j of the mask, ascending; returns how many. Up to eight entries more are overwritten.
[[gnu::always_inline]] static inline std::size_t write_positions_avx2(std::uint64_t mask, std::uint32_t first,
                                                                      std::uint32_t* out) noexcept {
    const auto count = static_cast<std::size_t>(_mm_popcnt_u64(mask));
    if (count <= 4) {  // the usual case when few are selected; four are written whatever the count, to save branches
        for (int j = 0; j < 4; ++j) {
            out[j] = first + static_cast<std::uint32_t>(_tzcnt_u64(mask));
            mask = _blsr_u64(mask);
        }
        return count;
    }
    for (std::uint32_t byte = 0; byte < 8; ++byte) {
        const auto v = static_cast<std::uint8_t>(mask >> (8 * byte));
        const __m128i packed = _mm_cvtsi64_si128(static_cast<long long>(byte_positions.of[v]));
        const __m256i base = _mm256_set1_epi32(static_cast<int>(first + 8 * byte));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_add_epi32(base, _mm256_cvtepu8_epi32(packed)));
        out += _mm_popcnt_u32(v);
    }
    return count;
}

}  // namespace gradwire
