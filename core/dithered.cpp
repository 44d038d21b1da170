#include "dithered.hpp"

#include <algorithm>

#include "philox.hpp"

namespace gradwire {
namespace {

// work(begin, size, words) for the pieces of entries first … first + m − 1.
template <class Work>
void in_pieces(std::size_t first, std::size_t m, std::uint64_t seed, const Work& work) {
    std::uint32_t words[level_piece];
    for (std::size_t begin = 0; begin < m; begin += level_piece) {
        const std::size_t size = std::min(level_piece, m - begin);
        philox_words(seed, 0, first + begin, size, words);
        work(begin, size, words);
    }
}

// work(levels, contexts, size) for the pieces of these entries: levels are tokens, in bytes, where all are plain, which is
// the rule; else numbers.
template <class Work>
void round_pieces(const float* x, std::size_t first, std::size_t m, const Ditherer& ditherer, unsigned bits,
                  const Work& work) {
    const QuantiseKernels& kernels = quantise_kernels();
    std::uint8_t tokens[level_piece], contexts[level_piece];
    std::uint32_t zigzag[level_piece];
    in_pieces(first, m, ditherer.seed, [&](std::size_t begin, std::size_t size, const std::uint32_t* words) {
        const float* const y = x + first + begin;
        contexts_of_words(words, size, bits, contexts);
        if (kernels.quantise_plain(y, size, ditherer.inverse, Rounding::shared, words, tokens, nullptr)) {
            work(tokens, contexts, size);
        } else {
            kernels.quantise(y, size, ditherer.inverse, Rounding::shared, words, zigzag);
            work(zigzag, contexts, size);
        }
    });
}

}  // namespace

void count_dithered(const float* x, std::size_t first, std::size_t m, const Ditherer& ditherer,
                    ContextCounter& counter) noexcept {
    round_pieces(x, first, m, ditherer, 4, [&](const auto* levels, const std::uint8_t* contexts, std::size_t size) {
        counter.add(levels, contexts, size);
    });
}

std::size_t encode_dithered(const float* x, std::size_t first, std::size_t m, const Ditherer& ditherer, unsigned bits,
                            const ContextEncodeTable& table, const ContextScratch& scratch, std::uint8_t* out) noexcept {
    ContextBlockWriter writer(table, scratch);
    bool coded = true;
    round_pieces(x, first, m, ditherer, bits, [&](const auto* levels, const std::uint8_t* contexts, std::size_t size) {
        coded = coded && writer.put(levels, contexts, size);
    });
    return coded ? writer.finish(out) : 0;
}

bool check_dithered(const ContextBlock& block, std::size_t first, std::uint64_t seed, unsigned bits,
                    const ContextDecodeTable& table, std::uint8_t* contexts, std::uint8_t* tokens, std::uint32_t* v) {
    in_pieces(first, block.size, seed, [&](std::size_t begin, std::size_t size, const std::uint32_t* words) {
        contexts_of_words(words, size, bits, contexts + begin);
    });
    const bool plain = decode_in_context(block, contexts, table, v) < plain_limit;
    if (plain)
        for (std::size_t i = 0; i < block.size; ++i) tokens[i] = static_cast<std::uint8_t>(v[i]);
    return plain;
}

void add_dithered(const DitheredBlock& block, const Dequantiser& dequantiser, float* out) noexcept {
    const QuantiseKernels& kernels = quantise_kernels();
    const float step = dequantiser.step, power = dequantiser.power, weight = dequantiser.weight;
    in_pieces(block.first, block.size, dequantiser.seed,
              [&](std::size_t begin, std::size_t size, const std::uint32_t* words) {
                  float* const to = out + block.first + begin;
                  if (block.tokens != nullptr) {
                      kernels.add_dithered(to, block.tokens + begin, size, words, step, power, weight);
                      return;
                  }
                  float values[level_piece];
                  kernels.dequantise(block.zigzag + begin, size, step, words, values);
                  kernels.add_scaled(to, values, size, power, weight);
              });
}

}  // namespace gradwire
