#include "hadamard.hpp"

#include <bit>
#include <cmath>

#include "dispatch.hpp"

namespace gradwire {
namespace portable {
namespace {
#include "hadamard_loops.inl"
}  // namespace
}  // namespace portable

const HadamardKernels hadamard_kernels_portable = portable::table;

const HadamardKernels& hadamard_kernels() noexcept {
#if defined(__x86_64__)
    if (simd() == Simd::avx512) return hadamard_kernels_avx512;
    if (simd() == Simd::avx2) return hadamard_kernels_avx2;
#endif
    return hadamard_kernels_portable;
}

}  // namespace gradwire
