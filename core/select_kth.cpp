#include "select_kth.hpp"

#include <algorithm>
#include <functional>

#include "dispatch.hpp"

namespace gradwire {
namespace {

constexpr unsigned bins_log2 = 11;
constexpr std::size_t bins = std::size_t{1} << bins_log2;
constexpr std::size_t few = 1024;  // so many keys are sorted rather than counted

// counts[b] = keys with (key − low) >> shift = b; the last bin holds all others, those below low among them because
// their difference wraps.
void count_keys(const std::uint32_t* bits, std::size_t n, std::uint32_t low, unsigned shift,
                std::uint32_t (&counts)[bins + 1]) noexcept {
    // Neighbours often fall into the same bin: with one table each, an addition need not wait for the one before.
    constexpr std::size_t tables = 4;
    std::uint32_t table[tables][bins + 1] = {};
    const auto bin = [=](std::uint32_t v) {
        return std::min<std::uint32_t>(((v & key_mask) - low) >> shift, static_cast<std::uint32_t>(bins));
    };
    std::size_t i = 0;
    for (; i + tables <= n; i += tables)
        for (std::size_t t = 0; t < tables; ++t) ++table[t][bin(bits[i + t])];
    for (; i < n; ++i) ++table[0][bin(bits[i])];
    for (std::size_t b = 0; b <= bins; ++b) counts[b] = table[0][b] + table[1][b] + table[2][b] + table[3][b];
}

// The r-th largest among few keys; `keys` is reordered.
Kth kth_of_few(std::uint32_t* keys, std::size_t n, std::size_t r) noexcept {
    std::nth_element(keys, keys + (r - 1), keys + n, std::greater<>());
    const std::uint32_t key = keys[r - 1];
    const auto greater = static_cast<std::size_t>(std::count_if(keys, keys + n, [=](auto v) { return v > key; }));
    return {key, greater, static_cast<std::size_t>(std::count(keys, keys + n, key))};
}

}  // namespace

const SelectKernels& select_kernels() noexcept {
#if defined(__x86_64__)
    switch (simd()) {
        case Simd::avx512: return select_kernels_avx512;
        case Simd::avx2: return select_kernels_avx2;
        case Simd::portable: break;
    }
#endif
    return select_kernels_portable;
}

Kth kth_largest(const SelectKernels& kernels, const std::uint32_t* bits, std::size_t n, std::size_t r,
                std::uint32_t low, unsigned shift) noexcept {
    std::uint32_t keys[few + select_slack];
    if (n <= few) {
        for (std::size_t i = 0; i < n; ++i) keys[i] = bits[i] & key_mask;
        return kth_of_few(keys, n, r);
    }
    std::uint32_t counts[bins + 1];
    std::size_t greater = 0;  // keys above the range in hand
    count_keys(bits, n, low, shift, counts);
    if (r <= counts[bins]) {  // the guessed range is too low
        low += std::uint32_t{1} << (bins_log2 + shift);
        shift = 31 - bins_log2;
        count_keys(bits, n, low, shift, counts);
    } else {
        greater = counts[bins];
    }
    for (std::size_t in_use = bins;;) {
        std::size_t b = in_use - 1;
        for (; greater + counts[b] < r; --b) greater += counts[b];
        low += static_cast<std::uint32_t>(b) << shift;
        const std::size_t inside = counts[b];
        if (shift == 0) return {low, greater, inside};
        const std::uint32_t width = std::uint32_t{1} << shift;
        if (inside <= few) {
            kernels.between(bits, 0, n, low, low + (width - 1), keys);
            for (std::size_t i = 0; i < inside; ++i) keys[i] = bits[keys[i]] & key_mask;
            Kth found = kth_of_few(keys, inside, r - greater);
            found.greater += greater;
            return found;
        }
        in_use = std::min<std::size_t>(bins, width);
        shift -= std::min(shift, bins_log2);
        count_keys(bits, n, low, shift, counts);
    }
}

}  // namespace gradwire
