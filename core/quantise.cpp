#include "quantise.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "dispatch.hpp"

namespace gradwire {
namespace portable {
namespace {
#include "quantise_loops.inl"

// Pieces stay in the first cache: each can have several loops, of the kinds that the compiler makes vectors of.
constexpr std::size_t piece = 2048;

void add_products(const float* x, const float* k, std::size_t n, double* products) {
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes)
        for (std::size_t j = 0; j < lanes; ++j)
            products[j] += static_cast<double>(x[i + j]) * static_cast<double>(k[i + j]);
    for (std::size_t j = 0; i < n; ++i, ++j) products[j] += static_cast<double>(x[i]) * static_cast<double>(k[i]);
}

Extent extent(const float* x, std::size_t n) {
    Extent result{0, 0};
    std::uint32_t top = 0;
    for (std::size_t begin = 0; begin < n; begin += block) {
        const std::size_t end = std::min(begin + block, n);
        double squares[lanes] = {};
        for (std::size_t from = begin; from < end; from += piece) {
            const std::size_t size = std::min(piece, end - from);
            for (std::size_t i = from; i < from + size; ++i) {
                std::uint32_t bits;
                std::memcpy(&bits, x + i, sizeof bits);
                top = std::max(top, bits & 0x7FFFFFFFu);
            }
            add_products(x + from, x + from, size, squares);
        }
        result.squares += folded(squares);
    }
    std::memcpy(&result.largest, &top, sizeof top);
    return result;
}

double sum_squares(const float* x, std::size_t n) { return extent(x, n).squares; }

void add_magnitudes(const float* x, std::size_t n, double* sums) {
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes)
        for (std::size_t j = 0; j < lanes; ++j) sums[j] += static_cast<double>(std::fabs(x[i + j]));
    for (std::size_t j = 0; i < n; ++i, ++j) sums[j] += static_cast<double>(std::fabs(x[i]));
}

LevelSums level_sums(const float* x, std::size_t n, float inverse) {
    LevelSums sums{};
    float k[piece];
    for (std::size_t begin = 0; begin < n; begin += block) {
        const std::size_t end = std::min(begin + block, n);
        double products[lanes] = {}, squares[lanes] = {};
        for (std::size_t from = begin; from < end; from += piece) {
            const std::size_t size = std::min(piece, end - from);
            std::uint32_t count = 0;
            for (std::size_t i = 0; i < size; ++i) {
                k[i] = nearest(clamped(x[from + i] * inverse));
                count += k[i] != 0.0f;
            }
            sums.nonzero += count;
            add_products(x + from, k, size, products);
            add_products(k, k, size, squares);
        }
        sums.products += folded(products);
        sums.squares += folded(squares);
    }
    return sums;
}

bool quantise_plain(const float* x, std::size_t n, float inverse, Rounding rounding, const std::uint32_t* words,
                    std::uint8_t* tokens, double* products) {
    std::uint32_t zigzag[piece];
    float k[piece];
    for (std::size_t begin = 0; begin < n; begin += piece) {
        const std::size_t size = std::min(piece, n - begin);
        quantise(x + begin, size, inverse, rounding, words == nullptr ? nullptr : words + begin, zigzag);
        std::uint32_t all = 0;
        for (std::size_t i = 0; i < size; ++i) all |= zigzag[i];
        if (all >= plain_levels) return false;
        for (std::size_t i = 0; i < size; ++i) tokens[begin + i] = static_cast<std::uint8_t>(zigzag[i]);
        if (products == nullptr) continue;
        for (std::size_t i = 0; i < size; ++i) k[i] = level_of(zigzag[i]);
        add_products(x + begin, k, size, products);
    }
    return true;
}

void add_plain(float* out, const std::uint8_t* tokens, std::size_t n, const float* addends) {
    float table[plain_levels];  // a copy that out cannot be, for all the compiler knows
    std::copy(addends, addends + plain_levels, table);
    for (std::size_t i = 0; i < n; ++i) out[i] += table[tokens[i]];
}

}  // namespace
}  // namespace portable

const QuantiseKernels quantise_kernels_portable{
    portable::extent,         portable::sum_squares, portable::add_magnitudes, portable::level_sums, portable::quantise,
    portable::quantise_plain, portable::dequantise,  portable::add_scaled,     portable::add_plain,  portable::add_dithered,
    portable::divide,         portable::multiply};

const QuantiseKernels& quantise_kernels() noexcept {
#if defined(__x86_64__)
    if (simd() == Simd::avx512) return quantise_kernels_avx512;
    if (simd() == Simd::avx2) return quantise_kernels_avx2;
#endif
    return quantise_kernels_portable;
}

}  // namespace gradwire
