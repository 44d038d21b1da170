#include "powers.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>

#include "natural.hpp"
#include "philox.hpp"
#include "threads.hpp"
#include "values.hpp"

namespace gradwire {
namespace {

// The codes of a piece.
void round_piece(const float* x, std::size_t first, std::size_t size, const PowerQuantiser& quantiser,
                 std::uint32_t* codes) noexcept {
    std::uint32_t words[level_piece];
    float quotients[level_piece];
    const float* y = x + first;
    if (quantiser.divisor != 1.0f) {
        quantise_kernels().divide(y, first, size, &quantiser.divisor, first + size, quotients);
        y = quotients;
    }
    philox_words(quantiser.seed, quantiser.stream, first, size, words);
    natural_kernels().round(y, size, quantiser.lowest, words, codes);
}

// No entry of at most this magnitude is rounded to an exponent above this one (natural_bias is added; 0 for none).
std::uint32_t most_exponent(float magnitude, int lowest) noexcept {
    if (magnitude == 0.0f) return 0;
    return static_cast<std::uint32_t>(std::max(std::ilogb(magnitude) + 1, lowest) + natural_bias);
}

}  // namespace

std::uint32_t largest_power(const float* x, std::size_t n, const PowerQuantiser& quantiser, float magnitude) {
    const std::uint32_t most = most_exponent(magnitude / quantiser.divisor, quantiser.lowest);
    // Only pieces that can raise it are rounded: few, where the largest entries are.
    std::atomic<std::uint32_t> largest{0};
    in_parallel_pieces(n, part_length, [&](std::size_t part, std::size_t part_size) {
        std::uint32_t codes[level_piece];
        for (std::size_t first = part; first < part + part_size; first += level_piece) {
            std::uint32_t seen = largest.load(std::memory_order_relaxed);
            if (seen == most) return;
            const std::size_t size = std::min(level_piece, part + part_size - first);
            const float quotient = value_kernels().max_abs(x + first, size) / quantiser.divisor;
            if (most_exponent(quotient, quantiser.lowest) <= seen) continue;
            round_piece(x, first, size, quantiser, codes);
            const std::uint32_t top = *std::max_element(codes, codes + size) >> 1;
            while (top > seen && !largest.compare_exchange_weak(seen, top, std::memory_order_relaxed)) {
            }
        }
    });
    return largest;
}

LevelBlock encode_power_block(const float* x, std::size_t first, std::size_t m, const PowerQuantiser& quantiser,
                              std::uint32_t largest, const LevelScratch& scratch) noexcept {
    std::uint32_t codes[level_piece];
    LevelBlockWriter writer(scratch);
    for (std::size_t begin = 0; begin < m; begin += level_piece) {
        const std::size_t size = std::min(level_piece, m - begin);
        round_piece(x, first + begin, size, quantiser, codes);
        if (natural_kernels().levels(codes, size, largest, writer.plain()) < plain_limit)
            writer.took_plain(size);
        else
            writer.put(codes, size);
    }
    return writer.finish();
}

}  // namespace gradwire
