#include <immintrin.h>

#include <cstring>

#include "signs.hpp"

namespace gradwire {
namespace avx512 {
namespace {
constexpr std::size_t group = 16;

inline void pack_group(const float* x, std::uint8_t* bits) {
    // A comparison, not the sign bit: −0 is not negative.
    const __mmask16 negative = _mm512_cmp_ps_mask(_mm512_loadu_ps(x), _mm512_setzero_ps(), _CMP_LT_OQ);
    std::memcpy(bits, &negative, 2);
}

inline void add_group(float* out, const std::uint8_t* bits, float addend) {
    __mmask16 negative;
    std::memcpy(&negative, bits, 2);
    const __m512 addends = _mm512_mask_mov_ps(_mm512_set1_ps(addend), negative, _mm512_set1_ps(-addend));
    _mm512_storeu_ps(out, _mm512_add_ps(_mm512_loadu_ps(out), addends));
}
#include "signs_loops.inl"
}  // namespace
}  // namespace avx512

const SignKernels sign_kernels_avx512 = avx512::table;

}  // namespace gradwire
