#include "spherical.hpp"

#include <immintrin.h>

#include <cstring>

#include "philox.hpp"

namespace gradwire {
namespace avx2 {
namespace {
#define LANES 8
using Pattern = std::int32_t __attribute__((vector_size(4 * LANES)));
inline void root(float* p) noexcept { _mm256_storeu_ps(p, _mm256_sqrt_ps(_mm256_loadu_ps(p))); }
inline bool above(Pattern v, std::int32_t bound) noexcept {
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32(__builtin_bit_cast(__m256i, v), _mm256_set1_epi32(bound))) != 0;
}
#include "spherical_loops.inl"
}  // namespace
}  // namespace avx2

const SphericalKernels spherical_kernels_avx2 = avx2::table;

}  // namespace gradwire
