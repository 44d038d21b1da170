// What rans.cpp and its instruction sets share: the tables, and the loops over whole groups of tokens, one token a lane.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rans.hpp"

namespace gradwire {

// Encoding a token divides the state by its frequency f. Two exact ways:
// portable: the upper half of x·reciprocal, 64 bits each; with bias and complement x' = x + bias + (x / f)·complement.
// SIMD: a binary32 quotient, made a little too small so that it is ⌊x / f⌋ or one less, and corrected.
// Tables are for more than one token in use: f < 4096.
struct EncodeTable {
    struct Step {
        std::uint64_t reciprocal;
        std::uint32_t bias;
        std::uint16_t frequency;
        std::uint16_t complement;  // 4096 − f
    };
    Step step[token_limit];
    alignas(64) float inverse[token_limit + 20];  // a little below 1 / f; whole registers of AVX-512
    alignas(64) std::uint32_t start_frequency[token_limit + 20];  // start << 16 | f
    unsigned top;
};

// Of a token with f slots from start on.
GRADWIRE_INLINE EncodeTable::Step step_of(std::uint32_t start, std::uint32_t f) noexcept {
    // ⌈2^64 / f⌉ is exact for x < 2^32. It does not fit for f = 1: there 2^64 − 1 gives x − 1, which bias makes up for.
    return f == 1 ? EncodeTable::Step{~std::uint64_t{0}, start + scale - 1, 1, scale - 1}
                  : EncodeTable::Step{~std::uint64_t{0} / f + 1, start, static_cast<std::uint16_t>(f),
                                      static_cast<std::uint16_t>(scale - f)};
}

// x < f·2^20, so x / f < 2^20. Rounding x, 1 / f and their product costs 3·2^−24 at most; 2^−21 less keeps the quotient
// from ever being too large, and it stays less than 1 too small. That holds too where x has its low 16 bits still:
// ⌊⌊x / 2^16⌋ / f⌋ = ⌊x / (2^16·f)⌋.
GRADWIRE_INLINE float below_inverse(std::uint32_t f) noexcept { return static_cast<float>((1.0 - 0x1p-21) / f); }

GRADWIRE_INLINE std::uint64_t pair_of(std::uint32_t start_frequency, float inverse) noexcept {
    return std::uint64_t{start_frequency} << 32 | load<std::uint32_t>(&inverse);
}

// Of frequencies with more than one token in use.
EncodeTable make_encode_table(const Frequencies& frequencies) noexcept;

// A slot's entry: token | (f − 1) << 8 | (slot − start) << 20.
struct DecodeTable {
    alignas(64) std::uint32_t slot[scale];
};

// Encodes groups · lanes tokens, last to first; returns the stack's top. Writes up to stack_slack words above it. Four
// bytes a token from `soon` on may be asked for into the cache meanwhile, where the coder waits for its own results and not
// for memory: with AVX-512 it does.
using EncodeGroups = std::uint16_t* (*)(const std::uint8_t* tokens, std::size_t groups, const EncodeTable& table,
                                        std::uint32_t* states, std::uint16_t* stack, const std::uint8_t* soon);

// Decodes up to so many groups, stopping where words has passed last; returns how many. Reads at most 2·lanes bytes
// from where a group starts.
using DecodeGroups = std::size_t (*)(std::uint8_t* tokens, std::size_t groups, const DecodeTable& table,
                                     std::uint32_t* states, const std::uint8_t*& words, const std::uint8_t* last);

// lanes is 16, 32 or 64.
EncodeGroups encode_groups_avx512(unsigned lanes) noexcept;
DecodeGroups decode_groups_avx512(unsigned lanes) noexcept;
EncodeGroups encode_groups_avx2(unsigned lanes) noexcept;
DecodeGroups decode_groups_avx2(unsigned lanes) noexcept;

// Add the counts of so many tokens at the front as they return; counts has room for 256.
std::size_t count_tokens_avx512(const std::uint8_t* tokens, std::size_t m, std::uint32_t* counts) noexcept;
std::size_t count_tokens_avx2(const std::uint8_t* tokens, std::size_t m, std::uint32_t* counts) noexcept;

GRADWIRE_INLINE std::uint16_t* encode_step(std::uint32_t& state, const EncodeTable::Step& step,
                                           std::uint16_t* top) noexcept {
    std::uint32_t x = state;
    *top = static_cast<std::uint16_t>(x);
    const bool full = (x >> 20) >= step.frequency;
    top += full;
    x >>= full ? 16 : 0;
    const auto quotient =
        static_cast<std::uint32_t>((static_cast<unsigned __int128>(step.reciprocal) * x) >> 64);
    state = x + step.bias + quotient * step.complement;
    return top;
}

// The token of a state, whose slot is in the table that begins at slots. Leaves the state below 2^16 where it needs a word.
GRADWIRE_INLINE std::uint8_t decode_step(std::uint32_t& state, const std::uint32_t* slots) noexcept {
    const std::uint32_t entry = slots[state & (scale - 1)];
    state = ((entry >> 8 & 0xFFF) + 1) * (state >> scale_log2) + (entry >> 20);
    return static_cast<std::uint8_t>(entry);
}

}  // namespace gradwire
