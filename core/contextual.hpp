// Integers in context (docs/wire-format.md, 4.5): rANS with one table of frequencies a context.
//
// The caller owns every buffer, and sees to it that contexts are below the number of tables and that tables are valid.
#pragma once

#include <cstddef>
#include <cstdint>

#include "contextual_tables.hpp"
#include "rans_lanes.hpp"

namespace gradwire {

// For each random word its first bits, up to 4 of them.
void contexts_of_words(const std::uint32_t* words, std::size_t n, unsigned bits, std::uint8_t* contexts) noexcept;

// Encoding looks tables up by symbol, context << 8 | token. Entries without a frequency are not set.
inline constexpr unsigned symbol_limit = most_contexts << 8;

struct ContextEncodeTable {
    EncodeTable::Step step[symbol_limit];          // portable
    alignas(64) std::uint64_t pair[symbol_limit];  // SIMD: a little below 1 / f, as binary32; above it start << 16 | f
    // Of each context, four times over: the first number that has extra bits or no frequency.
    alignas(64) std::uint8_t plain_below[4 * most_contexts];
    const std::uint16_t* frequencies;
};
void fill_encode_table(const std::uint16_t* frequencies, unsigned tables, ContextEncodeTable& table) noexcept;

// A slot's entry, at context << 12 | slot, is that of DecodeTable.
struct ContextDecodeTable {
    alignas(64) std::uint32_t slot[most_contexts * scale];
    const std::uint32_t* of(unsigned context) const noexcept { return slot + (std::size_t{context} << scale_log2); }
    const std::uint16_t* frequencies;
};
void fill_decode_table(const std::uint16_t* frequencies, unsigned tables, ContextDecodeTable& table) noexcept;

// Buffers for m numbers: symbols m, extra context_extra_bound(m) bytes, stack m + stack_slack words.
struct ContextScratch {
    std::uint16_t* symbols;
    std::uint8_t* extra;
    std::uint16_t* stack;
};
constexpr std::size_t context_extra_bound(std::size_t m) noexcept { return 4 * m + write_slack; }
constexpr std::size_t context_block_bound(std::size_t m) noexcept { return 1 + 5 + 5 + 4 * most_lanes + (2 + 4) * m; }

// Collects a block of 1 … block_length numbers piece by piece; pieces of a multiple of 64 numbers go fastest, and of plain
// tokens.
class ContextBlockWriter {
public:
    ContextBlockWriter(const ContextEncodeTable& table, const ContextScratch& scratch) noexcept;
    // False if the tables cannot code a number: then the block cannot be finished.
    bool put(const std::uint8_t* tokens, const std::uint8_t* contexts, std::size_t m) noexcept;
    bool put(const std::uint32_t* v, const std::uint8_t* contexts, std::size_t m) noexcept;
    // Writes the block to out, where context_block_bound(how many) bytes are free, and returns its size.
    std::size_t finish(std::uint8_t* out) noexcept;

private:
    bool put_any(const std::uint32_t* v, const std::uint8_t* contexts, std::size_t m) noexcept;

    const ContextEncodeTable& table_;
    const ContextScratch scratch_;
    std::size_t size_ = 0;
    BitWriter extra_;
    std::uint64_t extra_bits_ = 0;
};

// A block as it lies in a message: its bytes are all there, but not checked.
struct ContextBlock {
    std::size_t size;  // numbers
    unsigned lanes;
    const std::uint8_t* states;
    const std::uint8_t* words;
    std::size_t word_count;
    const std::uint8_t* extra;
    const std::uint8_t* end;
    std::uint32_t extra_bits;
};

// The block of 1 ≤ m ≤ block_length numbers at the reader, which passes it: so blocks are found without decoding them.
ContextBlock read_context_block(ByteReader& reader, std::size_t m);

// Its numbers. Returns an upper bound of them that is below plain_limit if all are, and no more.
std::uint32_t decode_in_context(const ContextBlock& block, const std::uint8_t* contexts, const ContextDecodeTable& table,
                                std::uint32_t* v);

}  // namespace gradwire
