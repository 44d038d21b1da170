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
        const std::uint8_t* const tokens = last_ = tokens_;
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

    // The tokens of the piece that was read last, which may not all be plain; null if the block has none.
    const std::uint8_t* tokens_read() const noexcept { return unary_ ? nullptr : last_; }

    void finish() const { numbers_.finish(); }

private:
    bool plain_, unary_;
    const std::uint8_t* tokens_;
    const std::uint8_t* last_ = nullptr;
    std::uint8_t* wide_;
    NumberReader numbers_;
};

// What each level adds, as far as the table goes: the products are rounded one by one, as for any other level.
void fill_addends(const QuantiseKernels& kernels, const Dequantiser& dequantiser, float* addends) noexcept {
    if (dequantiser.values != nullptr) {
        std::fill(addends, addends + plain_limit, 0.0f);
        for (std::uint32_t z = 0; z < dequantiser.count; ++z) addends[z] = dequantiser.weight * dequantiser.values[z];
        return;
    }
    std::uint32_t zigzag[plain_limit];
    float values[plain_limit];
    for (unsigned s = 0; s < plain_limit; ++s) zigzag[s] = s;
    std::fill(addends, addends + plain_limit, -0.0f);  // to which adding x gives x, −0 included
    kernels.dequantise(zigzag, plain_limit, dequantiser.step, nullptr, values);
    kernels.add_scaled(addends, values, plain_limit, dequantiser.power, dequantiser.weight);
}

// The largest number. Runs whose numbers together have no higher bit than it are passed over.
std::uint32_t largest(const std::uint32_t* zigzag, std::size_t size) noexcept {
    constexpr std::size_t run = 64;
    std::uint32_t top = 0;
    for (std::size_t begin = 0; begin < size; begin += run) {
        const std::size_t end = std::min(begin + run, size);
        std::uint32_t all = 0;
        for (std::size_t i = begin; i < end; ++i) all |= zigzag[i];
        if (all <= top) continue;
        for (std::size_t i = begin; i < end; ++i) top = std::max(top, zigzag[i]);
    }
    return top;
}

// Adds a piece that is not plain by table. Few of its numbers are large, so most runs of it are plain still.
void add_by_table(const QuantiseKernels& kernels, const std::uint32_t* zigzag, const std::uint8_t* tokens,
                  std::size_t size, const float* addends, float* out) noexcept {
    constexpr std::size_t run = 64;
    for (std::size_t begin = 0; begin < size; begin += run) {
        const std::size_t end = std::min(begin + run, size);
        std::uint32_t all = 0;
        for (std::size_t i = begin; i < end; ++i) all |= zigzag[i];
        if (all < plain_limit && tokens != nullptr) {
            kernels.add_plain(out + begin, tokens + begin, end - begin, addends);
            continue;
        }
        for (std::size_t i = begin; i < end; ++i) out[i] += addends[zigzag[i]];
    }
}

}  // namespace

void LevelBlockWriter::put(const std::uint32_t* zigzag, std::size_t size) noexcept {
    numbers_.put(zigzag, size);
    std::memcpy(next_, scratch_.wide + wide_, size);
    next_ += size;
    wide_ += size;
}

LevelBlock LevelBlockWriter::finish() noexcept {
    TokenBlock block = numbers_.finish();
    block.tokens = scratch_.tokens;
    block.size = static_cast<std::size_t>(next_ - scratch_.tokens);
    TokenCounts counts;
    LevelBlock result{encode_block(block, scratch_.stack, scratch_.block, &counts, scratch_.soon), {}};
    result.sums.nonzero = block.size - counts[0];
    std::uint64_t squares = 0;  // of small whole numbers: exact in any order
    for (std::uint64_t s = 1; s < plain_levels; ++s) squares += counts[s] * ((s + 1) / 2) * ((s + 1) / 2);
    result.sums.squares = static_cast<double>(squares);
    return result;
}

LevelBlock encode_level_block(const float* x, std::size_t first, std::size_t m, const Quantiser& quantiser,
                              const LevelScratch& scratch) noexcept {
    const QuantiseKernels& kernels = quantise_kernels();
    const bool random = quantiser.rounding != Rounding::nearest;
    std::uint32_t words[level_piece], zigzag[level_piece];
    float quotients[level_piece];
    double products[partial_sums] = {};
    LevelBlockWriter writer(scratch);
    for (std::size_t begin = 0; begin < m; begin += level_piece) {
        const std::size_t size = std::min(level_piece, m - begin);
        const float* y = x + first + begin;
        if (quantiser.divisors != nullptr) {
            kernels.divide(y, first + begin, size, quantiser.divisors, quantiser.bucket, quotients);
            y = quotients;
        }
        if (random) philox_words(quantiser.seed, quantiser.stream, first + begin, size, words);
        if (kernels.quantise_plain(y, size, quantiser.inverse, quantiser.rounding, random ? words : nullptr,
                                   writer.plain(), quantiser.summed ? products : nullptr)) {
            writer.took_plain(size);
            continue;
        }
        kernels.quantise(y, size, quantiser.inverse, quantiser.rounding, random ? words : nullptr, zigzag);
        writer.put(zigzag, size);
    }
    LevelBlock result = writer.finish();
    if (quantiser.summed && !writer.all_plain()) {
        result.sums = kernels.level_sums(x + first, m, quantiser.inverse);
    } else if (quantiser.summed) {
        result.sums.products = folded(products);
    }
    return result;
}

void check_level_block(const Block& block, const Dequantiser& dequantiser, std::uint8_t* tokens, std::uint8_t* wide) {
    std::uint32_t zigzag[level_piece];
    if (!block.unary) decode_tokens(block, tokens);
    PieceReader pieces(block, tokens, wide);
    const bool limited = dequantiser.values != nullptr;
    for (std::size_t begin = 0; begin < block.size; begin += level_piece) {
        const std::size_t size = std::min(level_piece, block.size - begin);
        const std::uint8_t* const plain = pieces.read(size, zigzag);
        std::uint32_t top = 0;
        if (plain != nullptr) {
            if (!limited || dequantiser.count >= plain_limit) continue;
            std::uint8_t largest = 0;
            for (std::size_t i = 0; i < size; ++i) largest = std::max(largest, plain[i]);
            top = largest;
        } else {
            top = largest(zigzag, size);
        }
        if (top == 0xFFFFFFFFu) throw MessageError("the message holds a level beyond the range of 32 bits");
        if (limited && top >= dequantiser.count)
            throw MessageError("the message holds a level beyond the smallest that its codec has");
    }
    pieces.finish();
}

void add_level_block(const Block& block, const std::uint8_t* tokens, const Dequantiser& dequantiser, float* out,
                     std::size_t first, std::uint8_t* wide, float* addends) noexcept {
    const QuantiseKernels& kernels = quantise_kernels();
    const float step = dequantiser.step, power = dequantiser.power, weight = dequantiser.weight;
    std::uint32_t zigzag[level_piece], words[level_piece];
    float values[level_piece];
    const bool in_table = !dequantiser.shared && dequantiser.steps == nullptr;
    if (in_table) fill_addends(kernels, dequantiser, addends);
    PieceReader pieces(block, tokens, wide);
    for (std::size_t begin = 0; begin < block.size; begin += level_piece) {
        const std::size_t size = std::min(level_piece, block.size - begin), at = first + begin;
        const std::uint8_t* const plain = pieces.read(size, zigzag);
        if (dequantiser.shared) {
            philox_words(dequantiser.seed, dequantiser.stream, at, size, words);
            if (plain != nullptr) {
                kernels.add_dithered(out + at, plain, size, words, step, power, weight);
                continue;
            }
        } else if (plain != nullptr && in_table) {
            kernels.add_plain(out + at, plain, size, addends);
            continue;
        } else if (dequantiser.values != nullptr) {
            add_by_table(kernels, zigzag, pieces.tokens_read(), size, addends, out + at);
            continue;
        }
        if (plain != nullptr)
            for (std::size_t i = 0; i < size; ++i) zigzag[i] = plain[i];
        kernels.dequantise(zigzag, size, step, dequantiser.shared ? words : nullptr, values);
        if (dequantiser.steps != nullptr)
            kernels.multiply(values, at, size, dequantiser.steps, dequantiser.bucket);
        kernels.add_scaled(out + at, values, size, power, weight);
    }
}

}  // namespace gradwire
