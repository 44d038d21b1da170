#include "signs.hpp"

#include <bit>
#include <cstring>

#include "dispatch.hpp"

namespace gradwire {
namespace portable {
namespace {
constexpr std::size_t group = 8;

// Eight bytes of 0 or 1, gathered to eight bits by one multiplication.
inline void pack_group(const float* x, std::uint8_t* bits) {
    std::uint8_t negative[8];
    for (unsigned j = 0; j < 8; ++j) negative[j] = x[j] < 0.0f;
    std::uint64_t word;
    std::memcpy(&word, negative, sizeof word);
    *bits = static_cast<std::uint8_t>(word * 0x0102040810204080u >> 56);
}

// The bits become the signs of the addend.
inline void add_group(float* out, const std::uint8_t* bits, float addend) {
    const std::uint32_t byte = *bits, magnitude = std::bit_cast<std::uint32_t>(addend);
    for (unsigned j = 0; j < 8; ++j) {
        const std::uint32_t sign = (byte & 1u << j) != 0 ? 0x80000000u : 0u;
        out[j] += std::bit_cast<float>(magnitude ^ sign);
    }
}
#include "signs_loops.inl"
}  // namespace
}  // namespace portable

const SignKernels sign_kernels_portable = portable::table;

const SignKernels& sign_kernels() noexcept {
#if defined(__x86_64__)
    if (simd() == Simd::avx512) return sign_kernels_avx512;
    if (simd() == Simd::avx2) return sign_kernels_avx2;
#endif
    return sign_kernels_portable;
}

}  // namespace gradwire
