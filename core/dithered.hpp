// The universal dithered code (docs/wire-format.md, 7.5) fused: rounding and coding on the way in, decoding and adding on
// the way out. The dither's words give the contexts too, so they are made anew rather than kept.
#pragma once

#include "contextual.hpp"
#include "levels.hpp"

namespace gradwire {

struct Ditherer {
    float inverse;  // of the step
    std::uint64_t seed;
};

// Counts the levels of x[first … first + m) in 16 contexts; x is the whole vector.
void count_dithered(const float* x, std::size_t first, std::size_t m, const Ditherer& ditherer,
                    ContextCounter& counter) noexcept;

// Writes their block, in contexts of `bits` bits, to out, and returns its size; 0 if the tables cannot code a level.
std::size_t encode_dithered(const float* x, std::size_t first, std::size_t m, const Ditherer& ditherer, unsigned bits,
                            const ContextEncodeTable& table, const ContextScratch& scratch, std::uint8_t* out) noexcept;

// A block of levels that was checked: bytes if all of them are plain, else numbers.
struct DitheredBlock {
    std::size_t first, size;
    const std::uint8_t* tokens;
    const std::uint32_t* zigzag;
};

// Decodes the block of the levels first, first + 1, … and checks it whole. Returns true if all are plain: then they lie in
// tokens, else in v; room for block.size each.
bool check_dithered(const ContextBlock& block, std::size_t first, std::uint64_t seed, unsigned bits,
                    const ContextDecodeTable& table, std::uint8_t* contexts, std::uint8_t* tokens, std::uint32_t* v);

// out += weight·((step·(k − (U − ½)))·power), saturating; out is the whole vector.
void add_dithered(const DitheredBlock& block, const Dequantiser& dequantiser, float* out) noexcept;

}  // namespace gradwire
