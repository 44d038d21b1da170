#include "spreading.hpp"

#include <algorithm>

#include "philox.hpp"

namespace gradwire {

static_assert(level_piece % (std::size_t{1} << kashin_longest) == 0, "a piece has whole rows");

std::size_t encode_coefficient_block(const Coefficients& coefficients, std::size_t first, std::size_t m,
                                     const LevelScratch& scratch) noexcept {
    const QuantiseKernels& kernels = quantise_kernels();
    const std::size_t row = std::size_t{1} << coefficients.log2n;
    float t[level_piece], divisors[level_piece];
    std::uint32_t words[level_piece], numbers[level_piece];
    LevelBlockWriter writer(scratch);
    for (std::size_t begin = 0; begin < m; begin += level_piece) {
        const std::size_t size = std::min(level_piece, m - begin), at = first + begin, rows = size / row;
        const float* const magnitudes = coefficients.magnitudes + at / row;
        for (std::size_t r = 0; r < rows; ++r) divisors[r] = magnitudes[r] == 0.0f ? 1.0f : magnitudes[r];
        kernels.divide(coefficients.p + at, 0, size, divisors, row, t);
        const float half = coefficients.half;
        for (std::size_t i = 0; i < size; ++i) t[i] = t[i] * half + half;
        for (std::size_t r = 0; r < rows; ++r)
            if (magnitudes[r] == 0.0f) std::fill_n(t + r * row, row, 0.0f);
        philox_words(coefficients.seed, 0, coefficients.before + at, size, words);
        kernels.quantise(t, size, 1.0f, Rounding::stochastic, words, numbers);
        std::uint32_t all = 0;
        for (std::size_t i = 0; i < size; ++i) all |= numbers[i] >>= 1;
        if (all < plain_limit) {
            std::uint8_t* const tokens = writer.plain();
            for (std::size_t i = 0; i < size; ++i) tokens[i] = static_cast<std::uint8_t>(numbers[i]);
            writer.took_plain(size);
        } else {
            writer.put(numbers, size);
        }
    }
    return writer.finish().size;
}

template <class Number>
void add_chunk(const Number* numbers, const Frame& frame, const FrameSum& sum, float* out, std::size_t count) noexcept {
    const std::size_t n = std::size_t{1} << frame.log2n;
    float row[std::size_t{1} << kashin_longest], values[std::size_t{1} << kashin_longest];
    // Integers below 2^24 all the way: the transform is exact.
    for (std::size_t i = 0; i < n; ++i) row[i] = 2.0f * static_cast<float>(numbers[i]) - sum.largest_level;
    hadamard_kernels().transform(row, frame.log2n);
    for (std::size_t i = 0; i < count; ++i) values[i] = row[frame.positions[i]] * frame.signs[i] * sum.step;
    quantise_kernels().add_scaled(out, values, count, sum.power, sum.weight);
}

template void add_chunk(const std::uint8_t*, const Frame&, const FrameSum&, float*, std::size_t) noexcept;
template void add_chunk(const std::uint16_t*, const Frame&, const FrameSum&, float*, std::size_t) noexcept;

}  // namespace gradwire
