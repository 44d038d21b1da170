#include "values.hpp"

#include "dispatch.hpp"

#include <cmath>
#include <cstring>

namespace gradwire {
namespace portable {
namespace {
#include "values_loops.inl"
}  // namespace
}  // namespace portable

const ValueKernels value_kernels_portable = portable::table;

const ValueKernels& value_kernels() noexcept {
#if defined(__x86_64__)
    if (simd() == Simd::avx512) return value_kernels_avx512;
    if (simd() == Simd::avx2) return value_kernels_avx2;
#endif
    return value_kernels_portable;
}

void gather(const float* x, const std::uint32_t* indices, std::size_t k, float* out) noexcept {
    constexpr std::size_t ahead = 32;
    for (std::size_t i = 0; i < k; ++i) {
        if (i + ahead < k) __builtin_prefetch(x + indices[i + ahead]);
        out[i] = x[indices[i]];
    }
}

void add_sparse(float* out, const std::uint32_t* indices, const float* values, std::size_t k, float weight) noexcept {
    constexpr std::size_t ahead = 32;
    for (std::size_t i = 0; i < k; ++i) {
        if (i + ahead < k) __builtin_prefetch(out + indices[i + ahead], 1);
        out[indices[i]] += weight * values[i];
    }
}

}  // namespace gradwire
