#include "levels.hpp"

#include <algorithm>
#include <cstring>

#include "philox.hpp"

namespace gradwire {
namespace {

static_assert(plain_levels == plain_limit);

// The numbers of a block, piece by piece. Most pieces need none: their tokens are plain, and stand for themselves.
class PieceReader {
public:
    PieceReader(const Block& block, const std::uint8_t* tokens, std::uint8_t* wide) noexcept
        : plain_(!block.unary && block.frequencies.top < plain_limit),
          unary_(block.unary),
          tokens_(tokens),
          wide_(wide),
          numbers_(block, wide) {}

    // The next `size` tokens if they are plain; else null, and zigzag holds the numbers.
    const std::uint8_t* read(std::size_t size, std::uint32_t* zigzag) noexcept {
        const std::uint8_t* tokens = tokens_;
        tokens_ += size;
        if (plain_) return tokens;
        if (!unary_) {
            std::uint8_t top = 0;
            for (std::size_t i = 0; i < size; ++i) top = std::max(top, tokens[i]);
            if (top < plain_limit) return tokens;
            // The reader of numbers takes its tokens from front to back, so those it is to skip are left out.
            std::memcpy(wide_, tokens, size);
            wide_ += size;
        }
        numbers_.read(size, zigzag);
        return nullptr;
    }

    void finish() const { numbers_.finish(); }

private:
    bool plain_, unary_;
    const std::uint8_t* tokens_;
    std::uint8_t* wide_;
    NumberReader numbers_;
};

// What each plain token adds: the products are rounded one by one, as for any other level.
void fill_addends(const QuantiseKernels& kernels, const Dequantiser& dequantiser, float* addends) noexcept {
    std::uint32_t zigzag[plain_limit];
    float values[plain_limit];
    for (unsigned s = 0; s < plain_limit; ++s) zigzag[s] = s;
    std::fill(addends, addends + plain_limit, -0.0f);  // to which adding x gives x, −0 included
    kernels.dequantise(zigzag, plain_limit, dequantiser.step, nullptr, values);
    kernels.add_scaled(addends, values, plain_limit, dequantiser.power, dequantiser.weight);
}

}  // namespace

LevelBlock encode_level_block(const float* x, std::size_t first, std::size_t m, const Quantiser& quantiser,
                              const LevelScratch& scratch) noexcept {
    const QuantiseKernels& kernels = quantise_kernels();
    const bool random = quantiser.rounding != Rounding::nearest;
    std::uint32_t words[level_piece], zigzag[level_piece];
    double products[16] = {};
    LevelBlock result{};
    TokenWriter writer(scratch.wide, scratch.extra);
    std::size_t wide = 0;
    std::uint64_t squares = 0;  // of small whole numbers: exact in any order
    for (std::size_t begin = 0; begin < m; begin += level_piece) {
        const std::size_t size = std::min(level_piece, m - begin);
        const float* const y = x + first + begin;
        std::uint8_t* const tokens = scratch.tokens + begin;
        if (random) philox_words(quantiser.seed, quantiser.stream, first + begin, size, words);
        if (kernels.quantise_plain(y, size, quantiser.inverse, quantiser.rounding, random ? words : nullptr, tokens,
                                   quantiser.summed ? products : nullptr)) {
            const PlainSums sums = kernels.plain_sums(tokens, size);
            squares += sums.squares;
            result.sums.nonzero += sums.nonzero;
            continue;
        }
        kernels.quantise(y, size, quantiser.inverse, quantiser.rounding, random ? words : nullptr, zigzag);
        writer.put(zigzag, size);
        std::memcpy(tokens, scratch.wide + wide, size);
        wide += size;
        std::uint32_t nonzero = 0;
        for (std::size_t i = 0; i < size; ++i) nonzero += zigzag[i] != 0;
        result.sums.nonzero += nonzero;
    }
    TokenBlock block = writer.finish();
    block.tokens = scratch.tokens;
    block.size = m;
    if (quantiser.summed && wide != 0) {
        result.sums = kernels.level_sums(x + first, m, quantiser.inverse);
    } else if (quantiser.summed) {
        for (std::size_t half = 8; half > 0; half /= 2)
            for (std::size_t j = 0; j < half; ++j) products[j] += products[j + half];
        result.sums.products = products[0];
        result.sums.squares = static_cast<double>(squares);
    }
    result.size = encode_block(block, scratch.stack, scratch.block);
    return result;
}

void check_level_block(const Block& block, std::uint8_t* tokens, std::uint8_t* wide) {
    std::uint32_t zigzag[level_piece];
    if (!block.unary) decode_tokens(block, tokens);
    PieceReader pieces(block, tokens, wide);
    for (std::size_t begin = 0; begin < block.size; begin += level_piece) {
        const std::size_t size = std::min(level_piece, block.size - begin);
        if (pieces.read(size, zigzag) != nullptr) continue;
        std::uint32_t top = 0;
        for (std::size_t i = 0; i < size; ++i) top = std::max(top, zigzag[i]);
        if (top == 0xFFFFFFFFu) throw MessageError("the message holds a level beyond the range of 32 bits");
    }
    pieces.finish();
}

void add_level_block(const Block& block, const std::uint8_t* tokens, const Dequantiser& dequantiser, float* out,
                     std::size_t first, std::uint8_t* wide) noexcept {
    const QuantiseKernels& kernels = quantise_kernels();
    std::uint32_t zigzag[level_piece], words[level_piece];
    float values[level_piece], addends[plain_limit];
    if (!dequantiser.shared) fill_addends(kernels, dequantiser, addends);
    PieceReader pieces(block, tokens, wide);
    for (std::size_t begin = 0; begin < block.size; begin += level_piece) {
        const std::size_t size = std::min(level_piece, block.size - begin);
        float* const to = out + first + begin;
        const std::uint8_t* const plain = pieces.read(size, zigzag);
        if (plain != nullptr && !dequantiser.shared) {
            kernels.add_plain(to, plain, size, addends);
            continue;
        }
        if (plain != nullptr)
            for (std::size_t i = 0; i < size; ++i) zigzag[i] = plain[i];
        if (dequantiser.shared) philox_words(dequantiser.seed, dequantiser.stream, first + begin, size, words);
        kernels.dequantise(zigzag, size, dequantiser.step, dequantiser.shared ? words : nullptr, values);
        kernels.add_scaled(to, values, size, dequantiser.power, dequantiser.weight);
    }
}

}  // namespace gradwire
