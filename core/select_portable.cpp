#include "select.hpp"
#include "values.hpp"

namespace gradwire {
namespace {

// Groups of 16 are first tested as a whole, in a form that any compiler turns into vector instructions; then written
// without a branch an entry.
constexpr std::size_t group = 16;

std::size_t at_least(const std::uint32_t* bits, std::size_t begin, std::size_t end, std::uint32_t low,
                     std::uint32_t* out) noexcept {
    // Keys are below 2^31 and low at most 2^31, so the sign of below − key tells key ≥ low without overflow.
    const std::int32_t below = static_cast<std::int32_t>(static_cast<std::int64_t>(low) - 1);
    std::size_t count = 0, i = begin;
    for (; i + group <= end; i += group) {
        __builtin_prefetch(bits + i + prefetch_distance);
        std::int32_t any = 0;
        for (std::size_t j = 0; j < group; ++j) any |= below - static_cast<std::int32_t>(bits[i + j] & key_mask);
        if (any >= 0) continue;
        for (std::size_t j = 0; j < group; ++j) {
            out[count] = static_cast<std::uint32_t>(i + j);
            count += (bits[i + j] & key_mask) >= low;
        }
    }
    for (; i < end; ++i) {
        out[count] = static_cast<std::uint32_t>(i);
        count += (bits[i] & key_mask) >= low;
    }
    return count;
}

std::size_t between(const std::uint32_t* bits, std::size_t begin, std::size_t end, std::uint32_t low,
                    std::uint32_t high, std::uint32_t* out) noexcept {
    std::size_t count = 0;
    for (std::size_t i = begin; i < end; ++i) {
        out[count] = static_cast<std::uint32_t>(i);
        count += (bits[i] & key_mask) - low <= high - low;
    }
    return count;
}

std::size_t count_at_least(const std::uint32_t* bits, std::size_t begin, std::size_t end, std::uint32_t low) noexcept {
    const std::int32_t below = static_cast<std::int32_t>(static_cast<std::int64_t>(low) - 1);
    std::uint32_t count = 0;
    for (std::size_t i = begin; i < end; ++i)
        count += static_cast<std::uint32_t>(below - static_cast<std::int32_t>(bits[i] & key_mask)) >> 31;
    return count;
}

std::size_t sum_at_least(const float* x, const float* residual, std::size_t n, float* total, std::uint32_t low,
                         std::uint32_t* out) noexcept {
    value_kernels_portable.sum(x, residual, n, total);
    return at_least(reinterpret_cast<const std::uint32_t*>(total), 0, n, low, out);
}

}  // namespace

const SelectKernels select_kernels_portable = {at_least, between, count_at_least, sum_at_least};

}  // namespace gradwire
