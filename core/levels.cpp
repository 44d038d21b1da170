#include "levels.hpp"

#include <algorithm>

#include "philox.hpp"

namespace gradwire {

LevelBlock encode_level_block(const float* x, std::size_t first, std::size_t m, const Quantiser& quantiser,
                               const LevelScratch& scratch) noexcept {
    const QuantiseKernels& kernels = quantise_kernels();
    const bool random = quantiser.rounding != Rounding::nearest;
    std::uint32_t zigzag[level_piece], words[level_piece];
    TokenWriter writer(scratch.tokens, scratch.extra);
    std::size_t nonzero = 0;
    for (std::size_t begin = first; begin < first + m; begin += level_piece) {
        const std::size_t size = std::min(level_piece, first + m - begin);
        if (random) philox_words(quantiser.seed, quantiser.stream, begin, size, words);
        kernels.quantise(x + begin, size, quantiser.inverse, quantiser.rounding, random ? words : nullptr, zigzag);
        writer.put(zigzag, size);
        std::uint32_t count = 0;
        for (std::size_t i = 0; i < size; ++i) count += zigzag[i] != 0;
        nonzero += count;
    }
    return {encode_block(writer.finish(), scratch.stack, scratch.block), nonzero};
}

void check_level_block(const Block& block, std::uint8_t* tokens) {
    std::uint32_t zigzag[level_piece];
    if (!block.unary) decode_tokens(block, tokens);
    NumberReader numbers(block, tokens);
    for (std::size_t begin = 0; begin < block.size; begin += level_piece) {
        const std::size_t size = std::min(level_piece, block.size - begin);
        numbers.read(size, zigzag);
        std::uint32_t top = 0;
        for (std::size_t i = 0; i < size; ++i) top = std::max(top, zigzag[i]);
        if (top == 0xFFFFFFFFu) throw MessageError("the message holds a level beyond the range of 32 bits");
    }
    numbers.finish();
}

void add_level_block(const Block& block, const std::uint8_t* tokens, const Dequantiser& dequantiser, float* out,
                     std::size_t first) noexcept {
    const QuantiseKernels& kernels = quantise_kernels();
    std::uint32_t zigzag[level_piece], words[level_piece];
    float values[level_piece];
    NumberReader numbers(block, tokens);
    for (std::size_t begin = 0; begin < block.size; begin += level_piece) {
        const std::size_t size = std::min(level_piece, block.size - begin);
        numbers.read(size, zigzag);
        if (dequantiser.shared) philox_words(dequantiser.seed, dequantiser.stream, first + begin, size, words);
        kernels.dequantise(zigzag, size, dequantiser.step, dequantiser.shared ? words : nullptr, values);
        kernels.add_scaled(out + first + begin, values, size, dequantiser.power, dequantiser.weight);
    }
}

}  // namespace gradwire
