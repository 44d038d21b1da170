#include "contextual.hpp"

#include <algorithm>
#include <cstring>

#include "contextual_lanes.hpp"
#include "dispatch.hpp"
#include "rans_words.hpp"

namespace gradwire {
namespace {

unsigned frequency(const std::uint16_t* frequencies, unsigned context, unsigned token) noexcept {
    return frequencies[context * context_tokens + token];
}

std::size_t plain_symbols_portable(const std::uint8_t* tokens, const std::uint8_t* contexts, std::size_t m,
                                   const ContextEncodeTable& table, std::uint16_t* symbols) {
    std::size_t begin = 0;
    for (; begin + symbol_piece <= m; begin += symbol_piece) {
        unsigned others = 0;
        for (std::size_t j = begin; j < begin + symbol_piece; ++j) {
            others += tokens[j] >= table.plain_below[contexts[j]];
            symbols[j] = static_cast<std::uint16_t>(unsigned{contexts[j]} << 8 | tokens[j]);
        }
        if (others != 0) break;
    }
    return begin;
}

PlainSymbols plain_symbols() noexcept {
#if defined(__x86_64__)
    if (simd() == Simd::avx512) return plain_symbols_avx512;
    if (simd() == Simd::avx2) return plain_symbols_avx2;
#endif
    return plain_symbols_portable;
}

// Any numbers. Returns false if one can be coded neither by its token nor by the escape.
bool any_symbols(const std::uint32_t* v, const std::uint8_t* contexts, std::size_t m, const std::uint16_t* frequencies,
                 std::uint16_t* symbols, BitWriter& extra, std::uint64_t& extra_bits) noexcept {
    for (std::size_t j = 0; j < m; ++j) {
        unsigned token = token_of(v[j]);
        unsigned width = extra_width(token);
        if (frequency(frequencies, contexts[j], token) == 0) {
            token = escape_token;
            width = escape_width;
            if (frequency(frequencies, contexts[j], token) == 0) return false;
        }
        symbols[j] = static_cast<std::uint16_t>(unsigned{contexts[j]} << 8 | token);
        if (width == 0) continue;
        extra.put(v[j] & ((std::uint64_t{1} << width) - 1), width);
        extra_bits += width;
    }
    return true;
}

EncodeContextGroups encoder(unsigned lanes) noexcept {
#if defined(__x86_64__)
    if (lanes >= 16 && simd() == Simd::avx512) return encode_context_groups_avx512(lanes);
    if (lanes >= 16 && simd() == Simd::avx2) return encode_context_groups_avx2(lanes);
#endif
    return with_lanes(lanes, []<unsigned count>(Lanes<count>) -> EncodeContextGroups {
        return [](const std::uint16_t* symbols, std::size_t groups, const ContextEncodeTable& table,
                  std::uint32_t* states, std::uint16_t* stack) {
            return encode_groups_portable<count>(symbols, groups, table.step, states, stack);
        };
    });
}

DecodeContextGroups decoder(unsigned lanes) noexcept {
#if defined(__x86_64__)
    if (lanes >= 16 && simd() == Simd::avx512) return decode_context_groups_avx512(lanes);
    if (lanes >= 16 && simd() == Simd::avx2) return decode_context_groups_avx2(lanes);
#endif
    return with_lanes(lanes, []<unsigned count>(Lanes<count>) -> DecodeContextGroups {
        return [](std::uint32_t* tokens, const std::uint8_t* contexts, std::size_t groups,
                  const ContextDecodeTable& table, std::uint32_t* states, const std::uint8_t*& words,
                  const std::uint8_t* last, std::uint32_t& all) {
            std::uint32_t seen = 0;
            const auto decode = [&](std::size_t j, std::uint32_t& y) {
                seen |= tokens[j] = decode_step(y, table.of(contexts[j]));
            };
            const std::size_t done = decode_groups_portable<count>(groups, states, words, last, decode);
            all |= seen;
            return done;
        };
    });
}

// Lanes follow from what the numbers cost. In long blocks a part of them tells.
constexpr std::size_t sampled_from = std::size_t{1} << 14;
constexpr unsigned sample_log2 = 4;

unsigned lanes_log2(const std::uint16_t* symbols, std::size_t m, const std::uint16_t* frequencies) noexcept {
    const unsigned shift = m < sampled_from ? 0 : sample_log2;
    std::uint32_t counts[symbol_limit] = {};
    for (std::size_t j = 0; j < m; j += std::size_t{1} << shift) ++counts[symbols[j]];
    std::uint64_t cost = 0;  // in 256ths of a bit
    for (unsigned symbol = 0; symbol < symbol_limit; ++symbol) {
        if (counts[symbol] == 0) continue;
        cost += std::uint64_t{counts[symbol]} * token_cost(frequency(frequencies, symbol >> 8, symbol & 0xFF));
    }
    const std::uint64_t bits = (cost << shift) >> 8;
    unsigned result = 0;
    for (const unsigned threshold : {11, 12, 13, 14, 18, 19}) result += bits >> threshold != 0;
    return result;
}

std::size_t rans_encode(const std::uint16_t* symbols, std::size_t m, const ContextEncodeTable& table, unsigned lanes,
                        std::uint32_t* states, std::uint16_t* stack) noexcept {
    std::fill(states, states + lanes, lowest_state);
    std::uint16_t* top = stack;
    const std::size_t groups = m / lanes;
    for (std::size_t j = m; j-- > groups * lanes;)
        top = encode_step(states[j - groups * lanes], table.step[symbols[j]], top);
    top = encoder(lanes)(symbols, groups, table, states, top);
    return static_cast<std::size_t>(top - stack);
}

// Returns all tokens or'ed.
std::uint32_t rans_decode(std::uint32_t* tokens, const std::uint8_t* contexts, std::size_t m,
                          const ContextDecodeTable& table, unsigned lanes, const std::uint8_t* states,
                          const std::uint8_t* words, std::size_t word_count) {
    BlockWords block(states, lanes, words, word_count);
    std::uint32_t all = 0;
    const DecodeContextGroups groups = decoder(lanes);
    block.decode(
        m,
        [&](std::size_t first, std::size_t count, const std::uint8_t* last) {
            return groups(tokens + first, contexts + first, count, table, block.x, block.words, last, all);
        },
        [&](std::size_t j, std::uint32_t& state) { all |= tokens[j] = decode_step(state, table.of(contexts[j])); });
    return all;
}

// Tokens to numbers, in place.
void read_extra(BitReader& extra, const std::uint8_t* contexts, std::size_t m, const std::uint16_t* frequencies,
                std::uint32_t* v) {
    for (std::size_t begin = 0; begin < m; begin += symbol_piece) {
        const std::size_t end = std::min(m, begin + symbol_piece);
        std::uint32_t all = 0;
        for (std::size_t j = begin; j < end; ++j) all |= v[j];
        if (all < plain_limit) continue;
        for (std::size_t j = begin; j < end; ++j) {
            const unsigned token = v[j];
            if (token != escape_token) {
                v[j] = token_base(token) + static_cast<std::uint32_t>(extra.get(extra_width(token)));
                continue;
            }
            v[j] = static_cast<std::uint32_t>(extra.get(escape_width));
            if (frequency(frequencies, contexts[j], token_of(v[j])) != 0)
                throw MessageError("the message escapes a number that its table has a frequency for");
        }
    }
}

}  // namespace

void contexts_of_words(const std::uint32_t* words, std::size_t n, unsigned bits, std::uint8_t* contexts) noexcept {
#if defined(__x86_64__)
    if (simd() == Simd::avx512) return contexts_of_words_avx512(words, n, bits, contexts);
    if (simd() == Simd::avx2) return contexts_of_words_avx2(words, n, bits, contexts);
#endif
    shift_words(words, n, bits, contexts);
}

void fill_encode_table(const std::uint16_t* frequencies, unsigned tables, ContextEncodeTable& table) noexcept {
    table.frequencies = frequencies;
    std::fill(table.plain_below, table.plain_below + 4 * most_contexts, std::uint8_t{0});
    for (unsigned c = 0; c < tables; ++c) {
        const std::uint16_t* of = frequencies + c * context_tokens;
        std::uint32_t start = 0;
        for (unsigned s = 0; s < context_tokens; ++s) {
            const std::uint32_t f = of[s];
            if (f == 0) continue;
            // f = 4096 fits in as well: that step leaves the state as it is.
            table.step[c << 8 | s] = step_of(start, f);
            table.pair[c << 8 | s] = pair_of(start << 16 | f, below_inverse(f));
            start += f;
        }
        const auto plain = static_cast<std::uint8_t>(std::find(of, of + plain_limit, 0) - of);
        for (unsigned quarter = 0; quarter < 4; ++quarter) table.plain_below[quarter * most_contexts + c] = plain;
    }
}

void fill_decode_table(const std::uint16_t* frequencies, unsigned tables, ContextDecodeTable& table) noexcept {
    table.frequencies = frequencies;
    std::uint32_t* slot = table.slot;
    for (unsigned c = 0; c < tables; ++c) slot = fill_slots(frequencies + c * context_tokens, context_tokens, slot);
}

ContextBlockWriter::ContextBlockWriter(const ContextEncodeTable& table, const ContextScratch& scratch) noexcept
    : table_(table), scratch_(scratch), extra_(scratch.extra) {}

bool ContextBlockWriter::put_any(const std::uint32_t* v, const std::uint8_t* contexts, std::size_t m) noexcept {
    if (!any_symbols(v, contexts, m, table_.frequencies, scratch_.symbols + size_, extra_, extra_bits_)) return false;
    size_ += m;
    return true;
}

bool ContextBlockWriter::put(const std::uint8_t* tokens, const std::uint8_t* contexts, std::size_t m) noexcept {
    const PlainSymbols plain = plain_symbols();
    for (std::size_t j = 0; j < m;) {
        const std::size_t done = plain(tokens + j, contexts + j, m - j, table_, scratch_.symbols + size_);
        size_ += done;
        j += done;
        const std::size_t size = std::min(m - j, symbol_piece);
        std::uint32_t v[symbol_piece];
        std::copy(tokens + j, tokens + j + size, v);
        if (!put_any(v, contexts + j, size)) return false;
        j += size;
    }
    return true;
}

bool ContextBlockWriter::put(const std::uint32_t* v, const std::uint8_t* contexts, std::size_t m) noexcept {
    std::uint8_t tokens[symbol_piece];
    for (std::size_t j = 0; j < m; j += symbol_piece) {
        const std::size_t size = std::min(m - j, symbol_piece);
        if (!(narrow(v + j, size, tokens) ? put(tokens, contexts + j, size) : put_any(v + j, contexts + j, size)))
            return false;
    }
    return true;
}

std::size_t ContextBlockWriter::finish(std::uint8_t* out) noexcept {
    const auto extra_size = static_cast<std::size_t>(extra_.finish() - scratch_.extra);
    const unsigned kind = lanes_log2(scratch_.symbols, size_, table_.frequencies);
    const unsigned lanes = 1u << kind;
    std::uint32_t states[most_lanes];
    const std::size_t word_count = rans_encode(scratch_.symbols, size_, table_, lanes, states, scratch_.stack);
    std::uint8_t* p = out;
    *p++ = static_cast<std::uint8_t>(kind);
    p = put_varint(p, static_cast<std::uint32_t>(word_count));
    p = put_varint(p, static_cast<std::uint32_t>(extra_bits_));
    std::memcpy(p, states, 4 * std::size_t{lanes});
    p += 4 * std::size_t{lanes};
    for (std::size_t w = 0; w < word_count; ++w) store(p + 2 * w, scratch_.stack[word_count - 1 - w]);
    p += 2 * word_count;
    std::memcpy(p, scratch_.extra, extra_size);
    return static_cast<std::size_t>(p - out) + extra_size;
}

ContextBlock read_context_block(ByteReader& reader, std::size_t m) {
    ContextBlock block{};
    block.size = m;
    const unsigned kind = reader.byte();
    if (1u << std::min(kind, 7u) > most_lanes) throw MessageError("the message has a block of more than 64 lanes");
    block.lanes = 1u << kind;
    block.word_count = reader.varint();
    block.extra_bits = reader.varint();
    block.states = reader.take(4 * std::uint64_t{block.lanes});
    block.words = reader.take(2 * std::uint64_t{block.word_count});
    block.extra = reader.take((std::uint64_t{block.extra_bits} + 7) / 8);
    block.end = reader.next();
    return block;
}

std::uint32_t decode_in_context(const ContextBlock& block, const std::uint8_t* contexts, const ContextDecodeTable& table,
                                std::uint32_t* v) {
    const std::uint32_t all = rans_decode(v, contexts, block.size, table, block.lanes, block.states, block.words,
                                          block.word_count);
    BitReader extra(block.extra, block.end);
    if (all >= plain_limit) read_extra(extra, contexts, block.size, table.frequencies, v);
    if (extra.position() != block.extra_bits)
        throw MessageError("the message has a block whose number of extra bits is not that of its tokens");
    extra.finish();
    return all;
}

}  // namespace gradwire
