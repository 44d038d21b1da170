#include "subset.hpp"

#include "select_positions_avx512.hpp"

namespace gradwire {
namespace {

#include "subset_loops.inl"

std::size_t candidates(const std::uint32_t* words, std::size_t m, std::uint32_t n, std::uint32_t refused,
                       std::uint32_t* out) noexcept {
    const __m512i factor = _mm512_set1_epi64(n), limit = _mm512_set1_epi32(static_cast<int>(refused));
    std::size_t count = 0;
    for (std::size_t i = 0; i < m; i += 16) {
        const __mmask16 there = static_cast<__mmask16>(m - i >= 16 ? 0xFFFF : (1u << (m - i)) - 1);
        const __m512i w = _mm512_maskz_loadu_epi32(there, words + i);
        const __m512i even = _mm512_mul_epu32(w, factor), odd = _mm512_mul_epu32(_mm512_srli_epi64(w, 32), factor);
        const __m512i high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
        const __m512i low = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
        const __mmask16 accepted = _mm512_mask_cmpge_epu32_mask(there, low, limit);
        _mm512_storeu_si512(out + count, _mm512_maskz_compress_epi32(accepted, high));
        count += static_cast<std::size_t>(_mm_popcnt_u32(accepted));
    }
    return count;
}

// The positions of a group of 512 bits, of a sparse subset: at most sixteen bytes are not 0, and they have one 1 each.
// Returns how many, or −1 if the group is not like that.
[[gnu::always_inline]] inline int write_sparse(__m512i group, std::uint32_t first, std::uint32_t* out) noexcept {
    const __mmask64 there = _mm512_test_epi8_mask(group, group);
    const __mmask64 several = _mm512_mask_test_epi8_mask(there, group, _mm512_sub_epi8(group, _mm512_set1_epi8(1)));
    const auto count = static_cast<int>(_mm_popcnt_u64(there));
    if (several != 0 || count > 16) return -1;
    const auto sixteen = [there](__m512i bytes) {
        return _mm512_cvtepu8_epi32(_mm512_castsi512_si128(_mm512_maskz_compress_epi8(there, bytes)));
    };
    const __m512i byte = sixteen(byte_numbers_avx512());
    const __m512i bit = _mm512_sub_epi32(_mm512_set1_epi32(31), _mm512_lzcnt_epi32(sixteen(group)));
    const __m512i base = _mm512_set1_epi32(static_cast<int>(first));
    _mm512_storeu_si512(out, _mm512_add_epi32(_mm512_add_epi32(base, _mm512_slli_epi32(byte, 3)), bit));
    return count;
}

std::size_t positions(const std::uint64_t* bitmap, std::size_t count, std::uint64_t flip, std::uint32_t* out) noexcept {
    std::uint32_t* const first = out;
    const __m512i flips = _mm512_set1_epi64(static_cast<long long>(flip));
    for (std::size_t i = 0; i < count; i += 8) {
        const std::size_t words = count - i < 8 ? count - i : 8;
        const auto there = static_cast<__mmask8>((1u << words) - 1);
        const __m512i group = _mm512_maskz_xor_epi64(there, _mm512_maskz_loadu_epi64(there, bitmap + i), flips);
        if (const int few = write_sparse(group, static_cast<std::uint32_t>(64 * i), out); few >= 0) {
            out += few;
            continue;
        }
        for (std::size_t j = i; j < i + words; ++j)
            out += write_positions_avx512(bitmap[j] ^ flip, static_cast<std::uint32_t>(64 * j), out);
    }
    return static_cast<std::size_t>(out - first);
}

}  // namespace

const SubsetKernels subset_kernels_avx512 = {candidates, positions, insert, insert_two, scatter};

}  // namespace gradwire
