#include "integers.hpp"

#include <algorithm>
#include <cstring>

namespace gradwire {
namespace {

constexpr std::uint8_t unary_kind = 7;
constexpr std::size_t piece = 32;  // numbers that are looked at together: are they all plain?

struct TokenTable {
    std::uint32_t base[token_limit];
    std::uint8_t extra_width[token_limit];
};

constexpr TokenTable token_table = [] {
    TokenTable table{};
    for (unsigned s = 0; s < token_limit; ++s) {
        table.base[s] = token_base(s);
        table.extra_width[s] = static_cast<std::uint8_t>(extra_width(s));
    }
    return table;
}();

constexpr std::uint64_t unary_width(std::uint64_t v) noexcept { return v == 0 ? 1 : ((v + 1) >> 1) + 2; }

// Bits of a unary block, taking each number as the smallest of its token: exact where no token has extra bits.
std::uint64_t least_unary_bits(const TokenCounts& counts) noexcept {
    std::uint64_t bits = 0;
    for (unsigned s = 0; s < token_limit; ++s) bits += counts[s] * unary_width(token_table.base[s]);
    return bits;
}

// Above plain_limit, a token is the exponent and the first two bits of the significand, as a binary32 holds them in one
// piece; so all this becomes vectors without a branch. Halving v makes it fit a signed integer; clearing the bits eight
// places below ones, so what is eight places below the first, keeps rounding from a carry.
void tokens_and_widths(const std::uint32_t (&v)[piece], std::uint8_t (&tokens)[piece], std::uint8_t (&widths)[piece]) noexcept {
    for (unsigned j = 0; j < piece; ++j) {
        const auto half = static_cast<std::int32_t>(v[j] >> 1);
        const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(half & ~(half >> 8)));
        const std::uint32_t plain = 0u - (v[j] < plain_limit);
        const std::uint32_t wide_token = (bits >> 21) - 4 * (127 + 4) + plain_limit;
        const std::uint32_t wide_width = (bits >> 23) - 127 - 1;
        tokens[j] = static_cast<std::uint8_t>((v[j] & plain) | (wide_token & ~plain));
        widths[j] = static_cast<std::uint8_t>(wide_width & ~plain);
    }
}

std::uint32_t next_number(unsigned token, BitReader& extra) noexcept {
    return token_table.base[token] + static_cast<std::uint32_t>(extra.get(token_table.extra_width[token]));
}

BitReader extra_reader(const TokenBlock& block) noexcept {
    return {block.extra, block.extra + (block.extra_bits + 7) / 8};
}

std::uint64_t exact_unary_bits(const TokenBlock& block) noexcept {
    BitReader extra = extra_reader(block);
    std::uint64_t bits = 0;
    for (std::size_t j = 0; j < block.size; ++j) bits += unary_width(next_number(block.tokens[j], extra));
    return bits;
}

std::size_t write_unary(const TokenBlock& block, std::uint8_t* out) noexcept {
    out[0] = unary_kind;
    BitReader extra = extra_reader(block);
    BitWriter bits(out + 1);
    for (std::size_t j = 0; j < block.size; ++j) {
        const std::uint32_t v = next_number(block.tokens[j], extra);
        if (v == 0) {
            bits.put(0, 1);
            continue;
        }
        bits.put(1 | (v & 1) << 1, 2);
        std::uint64_t ones = ((std::uint64_t{v} + 1) >> 1) - 1;
        for (; ones >= 32; ones -= 32) bits.put(0xFFFFFFFF, 32);
        bits.put((std::uint64_t{1} << ones) - 1, static_cast<unsigned>(ones) + 1);
    }
    return static_cast<std::size_t>(bits.finish() - out);
}

// A unary number; it may reach 2^32, which read_block rejects.
std::uint64_t next_unary(BitReader& bits) noexcept {
    const std::uint64_t word = bits.peek();
    if ((word & 1) == 0) {
        bits.skip(1);
        return 0;
    }
    std::uint64_t ones = static_cast<unsigned>(std::countr_one(word >> 2));
    bits.skip(2 + ones);
    // peek promises 57 bits. Where ones fill them, more may follow; beyond the message's end there are zeros.
    for (std::uint64_t more = ones < 55 ? 0 : 1; more != 0; ones += more) {
        more = static_cast<unsigned>(std::countr_one(bits.peek()));
        bits.skip(more);
    }
    bits.skip(1);
    return 2 * (ones + 1) - (word >> 1 & 1);
}

// The end of the stream of m unary numbers.
const std::uint8_t* check_unary(const std::uint8_t* data, const std::uint8_t* end, std::size_t m) {
    BitReader bits(data, end);
    for (std::size_t j = 0; j < m; ++j)
        if (next_unary(bits) >> 32) throw MessageError("the message has a number that reaches 2^32");
    return bits.finish();
}

}  // namespace

void TokenWriter::put(const std::uint32_t* v, std::size_t m) noexcept {
    std::uint8_t* const tokens = tokens_ + size_;
    // In locals: stores of bytes might change members, for all the compiler knows.
    BitWriter bits = bits_;
    std::uint64_t extra_bits = extra_bits_;
    for (std::size_t begin = 0; begin < m; begin += piece) {
        const std::size_t end = std::min(m, begin + piece);
        std::uint32_t all = 0;
        for (std::size_t j = begin; j < end; ++j) all |= v[j];
        if (all < plain_limit) {
            for (std::size_t j = begin; j < end; ++j) tokens[j] = static_cast<std::uint8_t>(v[j]);
            continue;
        }
        std::uint32_t numbers[piece] = {};
        std::uint8_t numbers_tokens[piece], widths[piece];
        std::copy(v + begin, v + end, numbers);
        tokens_and_widths(numbers, numbers_tokens, widths);
        std::copy(numbers_tokens, numbers_tokens + (end - begin), tokens + begin);
        for (std::size_t j = 0; j < piece; j += 2) {  // two at a time halve the chain of shifts
            const std::uint64_t first = numbers[j] & ((1u << widths[j]) - 1);
            const std::uint64_t second = numbers[j + 1] & ((1u << widths[j + 1]) - 1);
            const unsigned width = widths[j] + widths[j + 1];
            if (width <= 56) [[likely]] {
                bits.put(first | second << widths[j], width);
            } else {
                bits.put(first, widths[j]);
                bits.put(second, widths[j + 1]);
            }
            extra_bits += width;
        }
    }
    size_ += m;
    bits_ = bits;
    extra_bits_ = extra_bits;
}

TokenBlock TokenWriter::finish() noexcept {
    bits_.finish();
    return {tokens_, size_, extra_, extra_bits_};
}

std::size_t encode_block(const TokenBlock& block, std::uint16_t* stack, std::uint8_t* out,
                         TokenCounts* counted, const void* soon) noexcept {
    const TokenCounts counts = count_tokens(block.tokens, block.size);
    if (counted != nullptr) *counted = counts;
    const Frequencies frequencies = normalise(counts);
    const unsigned kind = lanes_log2(counts, frequencies);
    const unsigned lanes = 1u << kind;
    const auto extra_size = static_cast<std::size_t>((block.extra_bits + 7) / 8);

    const std::uint64_t unary_least = 1 + (least_unary_bits(counts) + 7) / 8;
    const auto unary_is_below = [&](std::size_t bytes) {
        if (unary_least >= bytes) return false;
        return block.extra_bits == 0 || 1 + (exact_unary_bits(block) + 7) / 8 < bytes;
    };

    std::uint8_t* p = out;
    *p++ = static_cast<std::uint8_t>(kind);
    p = write_frequencies(frequencies, p);
    // Even without any words rANS takes so many bytes: then there is no need to try it.
    if (unary_is_below(static_cast<std::size_t>(p - out) + 2 + 4 * lanes + extra_size)) return write_unary(block, out);

    std::uint32_t states[most_lanes];
    const std::size_t word_count = rans_encode(block.tokens, block.size, frequencies, lanes, states, stack, soon);
    p = put_varint(p, static_cast<std::uint32_t>(word_count));
    p = put_varint(p, static_cast<std::uint32_t>(block.extra_bits));
    std::memcpy(p, states, 4 * std::size_t{lanes});
    p += 4 * std::size_t{lanes};
    for (std::size_t w = 0; w < word_count; ++w) store(p + 2 * w, stack[word_count - 1 - w]);
    p += 2 * word_count;
    std::memcpy(p, block.extra, extra_size);
    p += extra_size;

    const auto size = static_cast<std::size_t>(p - out);
    return unary_is_below(size) ? write_unary(block, out) : size;
}

Block read_block(ByteReader& reader, std::size_t m) {
    Block block{};
    block.size = m;
    const unsigned kind = reader.byte();
    if (kind > unary_kind) throw MessageError("the message has a block of a kind that version 1 does not know");
    block.begin = reader.next();
    if (kind == unary_kind) {
        block.unary = true;
        reader.move_to(check_unary(reader.next(), reader.end(), m));
    } else {
        block.frequencies = read_frequencies(reader);
        block.lanes = 1u << kind;
        block.word_count = reader.varint();
        block.extra_bits = reader.varint();
        block.states = reader.take(4 * std::uint64_t{block.lanes});
        block.words = reader.take(2 * std::uint64_t{block.word_count});
        block.extra = reader.take((block.extra_bits + 7) / 8);
    }
    block.end = reader.next();
    return block;
}

void decode_tokens(const Block& block, std::uint8_t* tokens) {
    rans_decode(tokens, block.size, block.frequencies, block.lanes, block.states, block.words, block.word_count);
}

void NumberReader::read(std::size_t count, std::uint32_t* v) noexcept {
    // A local reader: stores of numbers might change a member, for all the compiler knows.
    BitReader bits = bits_;
    if (block_.unary) {
        for (std::size_t j = 0; j < count; ++j) v[j] = static_cast<std::uint32_t>(next_unary(bits));
        bits_ = bits;
        return;
    }
    const std::uint8_t* tokens = tokens_;
    for (std::size_t begin = 0; begin < count; begin += piece) {
        const std::size_t end = std::min(count, begin + piece);
        std::uint8_t all = 0;
        for (std::size_t j = begin; j < end; ++j) all |= tokens[j];
        if (all < plain_limit)
            for (std::size_t j = begin; j < end; ++j) v[j] = tokens[j];
        else
            for (std::size_t j = begin; j < end; ++j) v[j] = next_number(tokens[j], bits);
    }
    tokens_ = tokens + count;
    bits_ = bits;
}

void NumberReader::finish() const {
    if (block_.unary) return;  // checked when the block was read
    if (bits_.position() != block_.extra_bits)
        throw MessageError("the message has a block whose number of extra bits is not that of its tokens");
    bits_.finish();
}

void decode_numbers(const Block& block, std::uint8_t* tokens, std::uint32_t* v) {
    if (!block.unary) decode_tokens(block, tokens);
    NumberReader numbers(block, tokens);
    numbers.read(block.size, v);
    numbers.finish();
}

}  // namespace gradwire
