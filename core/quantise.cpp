#include "quantise.hpp"

#include <cmath>
#include <limits>

#include "dispatch.hpp"

namespace gradwire {
namespace portable {
namespace {
#include "quantise_loops.inl"
}  // namespace
}  // namespace portable

const QuantiseKernels quantise_kernels_portable = portable::table;

const QuantiseKernels& quantise_kernels() noexcept {
#if defined(__x86_64__)
    if (simd() == Simd::avx512) return quantise_kernels_avx512;
    if (simd() == Simd::avx2) return quantise_kernels_avx2;
#endif
    return quantise_kernels_portable;
}

}  // namespace gradwire
