// The integers section of docs/wire-format.md, 4.1: blocks of tokens with extra bits, rANS or unary.
//
// Producers of numbers (quantisers, gaps of indices) fill a TokenBlock each and encode_block it; consumers read_block and
// take its tokens, or its numbers. Blocks stand alone, so several threads may each do their own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rans.hpp"

namespace gradwire {

inline constexpr std::size_t block_length = std::size_t{1} << 20;  // numbers; only the last block has fewer

// Numbers from 2^5 up are tokens with extra bits.
inline constexpr std::uint32_t plain_limit = 32;

constexpr unsigned extra_width(unsigned token) noexcept {
    return token < plain_limit ? 0 : ((token - 32) >> 2) + 3;
}

// The smallest number of a token.
constexpr std::uint32_t token_base(unsigned token) noexcept {
    return token < plain_limit ? token : (4 + (token & 3)) << extra_width(token);
}

struct TokenBlock {
    const std::uint8_t* tokens;  // 1 … block_length of them
    std::size_t size;
    const std::uint8_t* extra;  // bit stream, padded to a byte
    std::uint64_t extra_bits;
};

// Turns numbers into a TokenBlock, in pieces: at most block_length numbers in all. The buffers are the caller's: tokens
// for the numbers, extra for extra_bound(how many) bytes.
constexpr std::size_t extra_bound(std::size_t m) noexcept { return (29 * m + 7) / 8 + write_slack; }

class TokenWriter {
public:
    TokenWriter(std::uint8_t* tokens, std::uint8_t* extra) noexcept : tokens_(tokens), extra_(extra), bits_(extra) {}
    void put(const std::uint32_t* v, std::size_t m) noexcept;
    TokenBlock finish() noexcept;

private:
    std::uint8_t* tokens_;
    std::size_t size_ = 0;
    std::uint8_t* extra_;
    BitWriter bits_;
    std::uint64_t extra_bits_ = 0;
};

// Writes a block to out, where block_bound(…) bytes must be free; stack has room for block.size + stack_slack words.
// Returns the block's size in bytes; where counts is not null, it gets how often each token is there. soon: as for
// rans_encode.
constexpr std::size_t block_bound(std::size_t m, std::uint64_t extra_bits) noexcept {
    return 1 + frequencies_bound + 5 + 5 + 4 * most_lanes + 2 * m + static_cast<std::size_t>((extra_bits + 7) / 8) +
           write_slack;
}
std::size_t encode_block(const TokenBlock& block, std::uint16_t* stack, std::uint8_t* out,
                         TokenCounts* counts = nullptr, const void* soon = nullptr) noexcept;

// A block as it lies in a message. Its bytes are all there, and a unary one is valid throughout; the tokens of a rANS
// one are not yet checked.
struct Block {
    std::size_t size;  // numbers
    bool unary;
    const std::uint8_t* begin;  // unary: the stream
    const std::uint8_t* end;    // of the block
    Frequencies frequencies;
    unsigned lanes;
    const std::uint8_t* states;
    const std::uint8_t* words;
    std::size_t word_count;
    const std::uint8_t* extra;
    std::uint64_t extra_bits;
};

// The block of m ≤ block_length numbers at the reader, which passes it: so blocks are found without decoding them.
Block read_block(ByteReader& reader, std::size_t m);

// The tokens of a block that is not unary: block.size of them.
void decode_tokens(const Block& block, std::uint8_t* tokens);

// The numbers of a block in pieces; of a block that is not unary its tokens were decoded before.
class NumberReader {
public:
    NumberReader(const Block& block, const std::uint8_t* tokens) noexcept
        : block_(block), tokens_(tokens), bits_(block.unary ? block.begin : block.extra, block.end) {}

    // The next `count` numbers.
    void read(std::size_t count, std::uint32_t* v) noexcept;
    // After the last number: raises unless the block has exactly the extra bits of its tokens.
    void finish() const;

private:
    const Block& block_;
    const std::uint8_t* tokens_;
    BitReader bits_;
};

// The numbers of any block; tokens is scratch for block.size.
void decode_numbers(const Block& block, std::uint8_t* tokens, std::uint32_t* v);

}  // namespace gradwire
