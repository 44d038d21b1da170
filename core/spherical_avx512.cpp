// GCC 12 warns of its own "undefined" operands (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include "spherical.hpp"

#include <immintrin.h>

#include <cstring>

#include "philox.hpp"

namespace gradwire {
namespace avx512 {
namespace {
#define LANES 16
using Pattern = std::int32_t __attribute__((vector_size(4 * LANES)));
inline void root(float* p) noexcept { _mm512_storeu_ps(p, _mm512_sqrt_ps(_mm512_loadu_ps(p))); }
inline bool above(Pattern v, std::int32_t bound) noexcept {
    return _mm512_cmpgt_epi32_mask(__builtin_bit_cast(__m512i, v), _mm512_set1_epi32(bound)) != 0;
}
#include "spherical_loops.inl"
}  // namespace
}  // namespace avx512

const SphericalKernels spherical_kernels_avx512 = avx512::table;

}  // namespace gradwire
