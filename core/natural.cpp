#include "natural.hpp"

#include <bit>
#include <cmath>

#include "dispatch.hpp"

namespace gradwire {
namespace portable {
namespace {
#include "natural_loops.inl"
}  // namespace
}  // namespace portable

const NaturalKernels natural_kernels_portable = portable::table;

const NaturalKernels& natural_kernels() noexcept {
#if defined(__x86_64__)
    if (simd() == Simd::avx512) return natural_kernels_avx512;
    if (simd() == Simd::avx2) return natural_kernels_avx2;
#endif
    return natural_kernels_portable;
}

}  // namespace gradwire
