#include <immintrin.h>

#include "signs.hpp"

namespace gradwire {
namespace avx2 {
namespace {
constexpr std::size_t group = 8;

inline void pack_group(const float* x, std::uint8_t* bits) {
    // A comparison, not the sign bit: −0 is not negative.
    const __m256 negative = _mm256_cmp_ps(_mm256_loadu_ps(x), _mm256_setzero_ps(), _CMP_LT_OQ);
    *bits = static_cast<std::uint8_t>(_mm256_movemask_ps(negative));
}

inline void add_group(float* out, const std::uint8_t* bits, float addend) {
    const __m256i to_sign = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
    const __m256i moved = _mm256_sllv_epi32(_mm256_set1_epi32(*bits), to_sign);
    const __m256 sign = _mm256_and_ps(_mm256_castsi256_ps(moved), _mm256_set1_ps(-0.0f));
    _mm256_storeu_ps(out, _mm256_add_ps(_mm256_loadu_ps(out), _mm256_xor_ps(sign, _mm256_set1_ps(addend))));
}
#include "signs_loops.inl"
}  // namespace
}  // namespace avx2

const SignKernels sign_kernels_avx2 = avx2::table;

}  // namespace gradwire
