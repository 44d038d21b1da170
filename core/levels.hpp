// The dense form of a levels section (docs/wire-format.md, 4.4), fused with what makes and takes the levels: quantising on
// the way in, scaling and adding on the way out. No array of levels comes to be.
#pragma once

#include "integers.hpp"
#include "quantise.hpp"

namespace gradwire {

inline constexpr std::size_t level_piece = 4096;  // numbers that are at hand at once: they stay in the first cache

// Scratch of a block of m numbers; tokens, extra, stack and block as for encode_block.
struct LevelScratch {
    std::uint8_t* tokens;
    std::uint8_t* wide;  // m bytes: tokens of the pieces that are not plain
    std::uint8_t* extra;
    std::uint16_t* stack;
    std::uint8_t* block;
    const void* soon = nullptr;  // 4·m bytes that are read after the block
};

struct LevelBlock {
    std::size_t size;  // bytes
    LevelSums sums;    // the number of levels that are not 0, and, if wanted, the sums over this block
};

// Collects the levels of a block piece by piece.
class LevelBlockWriter {
public:
    explicit LevelBlockWriter(const LevelScratch& scratch) noexcept
        : scratch_(scratch), next_(scratch.tokens), numbers_(scratch.wide, scratch.extra) {}

    // Where the next piece's tokens go if they are plain.
    std::uint8_t* plain() noexcept { return next_; }
    void took_plain(std::size_t size) noexcept { next_ += size; }
    // A piece of any zigzag numbers.
    void put(const std::uint32_t* zigzag, std::size_t size) noexcept;
    // Whether all pieces were plain.
    bool all_plain() const noexcept { return wide_ == 0; }
    // Writes the block to scratch.block; tells its size, how many levels are not 0, and, of plain ones, Σ k².
    LevelBlock finish() noexcept;

private:
    const LevelScratch& scratch_;
    std::uint8_t* next_;
    TokenWriter numbers_;
    std::size_t wide_ = 0;
};

struct Quantiser {
    float inverse;  // of the step
    Rounding rounding;
    std::uint64_t seed, stream;
    bool summed;  // nearest rounding only: the sums of the levels are wanted
    // If there are any, entries are first divided by the divisor of their bucket of so many.
    const float* divisors = nullptr;
    std::size_t bucket = 0;
};

// Writes the block of x[first … first + m) to scratch.block; m ≤ block_length. x is the whole vector.
LevelBlock encode_level_block(const float* x, std::size_t first, std::size_t m, const Quantiser& quantiser,
                              const LevelScratch& scratch) noexcept;

struct Dequantiser {
    float step, power, weight;  // out += weight · ((step·q)·power), saturating
    bool shared;                // q = k − (U − ½)
    std::uint64_t seed, stream;
    // If there are any: out += weight · values[zigzag k] instead, and levels beyond them are not valid.
    const float* values = nullptr;
    std::uint32_t count = 0;
    // If there are any: the step of each bucket of so many entries; `step` is 1.
    const float* steps = nullptr;
    std::size_t bucket = 0;
};

// Decodes a block into tokens (block.size of them; unused for a unary one) and checks it whole. wide: as much scratch.
void check_level_block(const Block& block, const Dequantiser& dequantiser, std::uint8_t* tokens, std::uint8_t* wide);

// Adds a checked block to out[first …); out is the whole vector. addends: scratch for max(count, plain_limit).
void add_level_block(const Block& block, const std::uint8_t* tokens, const Dequantiser& dequantiser, float* out,
                     std::size_t first, std::uint8_t* wide, float* addends) noexcept;

}  // namespace gradwire
