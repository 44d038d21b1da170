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

namespace {

constexpr std::size_t ahead = 32;  // entries that are asked for before they are due

void expect(float* out, const std::uint32_t* indices, std::size_t i, std::size_t k) noexcept {
    if (i + ahead < k) __builtin_prefetch(out + indices[i + ahead], 1);
}

template <class T>
void gather_any(const T* x, const std::uint32_t* indices, std::size_t k, T* out) noexcept {
    for (std::size_t i = 0; i < k; ++i) {
        if (i + ahead < k) __builtin_prefetch(x + indices[i + ahead]);
        out[i] = x[indices[i]];
    }
}

}  // namespace

void gather(const float* x, const std::uint32_t* indices, std::size_t k, float* out) noexcept {
    gather_any(x, indices, k, out);
}

void gather(const std::uint32_t* x, const std::uint32_t* indices, std::size_t k, std::uint32_t* out) noexcept {
    gather_any(x, indices, k, out);
}

void put_sparse(float* out, const std::uint32_t* indices, const float* values, std::size_t k) noexcept {
    for (std::size_t i = 0; i < k; ++i) {
        expect(out, indices, i, k);
        out[indices[i]] = values[i];
    }
}

void add_sparse(float* out, const std::uint32_t* indices, const float* values, std::size_t k, float weight) noexcept {
    for (std::size_t i = 0; i < k; ++i) {
        expect(out, indices, i, k);
        out[indices[i]] += weight * values[i];
    }
}

}  // namespace gradwire
