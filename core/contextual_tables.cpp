#include "contextual_tables.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace gradwire {
namespace {

constexpr unsigned most_length = scale_log2 + 1;  // of a weight, in bits
constexpr unsigned most_precision = scale_log2 - 1;

// ⌊4096·log2 f⌋, bit by bit: squaring doubles the logarithm. 31 bits behind the point are enough for 12 of them.
constexpr auto log2_table = [] {
    std::array<std::uint32_t, scale + 1> table{};
    for (std::uint64_t f = 1; f <= scale; ++f) {
        const auto whole = static_cast<unsigned>(std::bit_width(f)) - 1;
        std::uint32_t log2 = whole;
        std::uint64_t x = f << (31 - whole);
        for (unsigned bit = 0; bit < 12; ++bit) {
            x = x * x >> 31;
            log2 = log2 << 1 | static_cast<std::uint32_t>(x >> 32);
            x >>= x >> 32;
        }
        table[f] = log2;
    }
    return table;
}();

constexpr unsigned width_of(unsigned token) noexcept {
    return token == escape_token ? escape_width : extra_width(token);
}

// Where a lonely outlier would make the table long, it is escaped: its escape costs up to 32 bits more, and two bits
// are saved for each token that the table then does without.
void escape_outliers(std::uint64_t* counts) noexcept {
    int last = token_limit - 1;
    while (last >= 0 && counts[last] == 0) --last;
    while (last > 0) {
        int next = last - 1;
        while (next >= 0 && counts[next] == 0) --next;
        if (next < 0 || counts[last] * (escape_width - width_of(static_cast<unsigned>(last))) >=
                            2 * static_cast<std::uint64_t>(last - next))
            return;
        counts[escape_token] += counts[last];
        counts[last] = 0;
        last = next;
    }
}

// f with `precision` bits behind the leading one, rounded half up.
unsigned rounded(unsigned f, unsigned precision) noexcept {
    const auto length = static_cast<unsigned>(std::bit_width(f));
    if (length <= precision + 1) return f;
    const unsigned shift = length - 1 - precision;
    return (f + (1u << (shift - 1))) >> shift << shift;
}

void frequencies_of_weights(const std::uint16_t* weights, std::uint16_t* frequencies) noexcept {
    std::uint64_t counts[context_tokens];
    std::copy(weights, weights + context_tokens, counts);
    normalise_in_context(counts, frequencies);
}

// A weight: its length – 4 bits in the first table, later as the difference to that of the table before –, then as many
// of the bits behind the leading one as the precision allows.
void put_weight(BitWriter& out, unsigned weight, const std::uint16_t* before, unsigned precision) noexcept {
    const auto length = static_cast<unsigned>(std::bit_width(weight));
    if (before == nullptr) {
        out.put(length, 4);
    } else {
        const auto previous = static_cast<unsigned>(std::bit_width(*before));
        const unsigned ones = length <= previous ? 2 * (previous - length) : 2 * (length - previous) - 1;
        out.put((std::uint64_t{1} << ones) - 1, ones + 1);
    }
    if (length < 2) return;
    const unsigned kept = std::min(length - 1, precision);
    out.put((weight ^ 1u << (length - 1)) >> (length - 1 - kept), kept);
}

unsigned get_weight(BitReader& in, const std::uint16_t* before, unsigned precision) {
    unsigned length;
    if (before == nullptr) {
        length = static_cast<unsigned>(in.get(4));
    } else {
        const auto previous = static_cast<unsigned>(std::bit_width(*before));
        const auto ones = static_cast<unsigned>(std::countr_one(in.peek()));
        in.skip(ones + 1);
        const unsigned difference = (ones + 1) / 2;
        length = ones % 2 == 0 ? previous - difference : previous + difference;
    }
    if (length > most_length) throw MessageError("the message has a weight outside 0 … 8191");
    if (length < 2) return length;
    const unsigned kept = std::min(length - 1, precision);
    return static_cast<unsigned>(1u << kept | in.get(kept)) << (length - 1 - kept);
}

unsigned top_of(const std::uint16_t* weights) noexcept {
    unsigned top = token_limit - 1;
    while (top > 0 && weights[top] == 0) --top;
    return top;
}

}  // namespace

bool narrow(const std::uint32_t* v, std::size_t m, std::uint8_t* tokens) noexcept {
    std::uint32_t all = 0;
    for (std::size_t j = 0; j < m; ++j) all |= v[j];
    for (std::size_t j = 0; j < m; ++j) tokens[j] = static_cast<std::uint8_t>(v[j]);
    return all < plain_limit;
}

void ContextCounter::add(const std::uint8_t* tokens, const std::uint8_t* contexts, std::size_t m) noexcept {
    constexpr std::size_t piece = 64;
    std::size_t begin = 0;
    for (; begin + piece <= m; begin += piece) {
        std::uint16_t at[piece];
        for (std::size_t j = 0; j < piece; ++j)
            at[j] = static_cast<std::uint16_t>(contexts[begin + j] * plain_limit + tokens[begin + j]);
        for (std::size_t j = 0; j < piece; j += 4) {  // loaded together: then counting is all that there is to do
            const auto four = load<std::uint64_t>(at + j);
            for (unsigned set = 0; set < sets; ++set) ++plain_[set][four >> (16 * set) & 0xFFFF];
        }
    }
    for (; begin < m; ++begin) ++plain_[0][contexts[begin] * plain_limit + tokens[begin]];
}

void ContextCounter::add(const std::uint32_t* v, const std::uint8_t* contexts, std::size_t m) noexcept {
    constexpr std::size_t piece = 64;  // numbers that are looked at together: are they all plain?
    std::uint8_t tokens[piece];
    for (std::size_t begin = 0; begin < m; begin += piece) {
        const std::size_t size = std::min(m - begin, piece);
        if (narrow(v + begin, size, tokens)) {
            add(tokens, contexts + begin, size);
        } else {
            for (std::size_t j = begin; j < begin + size; ++j) ++other_[contexts[j]][token_of(v[j])];
        }
    }
}

void ContextCounter::add_to(std::uint64_t* counts, unsigned tables) const noexcept {
    for (unsigned c = 0; c < tables; ++c) {
        std::uint64_t* of = counts + c * context_tokens;
        for (unsigned s = 0; s < token_limit; ++s) of[s] += other_[c][s];
        for (const auto& set : plain_)
            for (unsigned s = 0; s < plain_limit; ++s) of[s] += set[c * plain_limit + s];
    }
}

void normalise_in_context(const std::uint64_t* counts, std::uint16_t* frequencies) noexcept {
    const std::uint64_t total = std::accumulate(counts, counts + context_tokens, std::uint64_t{0});
    std::fill(frequencies, frequencies + context_tokens, std::uint16_t{0});
    if (total == 0) {
        frequencies[0] = scale;
        return;
    }
    std::uint8_t used[context_tokens];
    unsigned used_count = 0;
    std::int64_t missing = scale;
    for (unsigned s = 0; s < context_tokens; ++s) {
        if (counts[s] == 0) continue;
        used[used_count++] = static_cast<std::uint8_t>(s);
        const std::uint64_t f = (2 * std::uint64_t{scale} * counts[s] + total) / (2 * total);
        frequencies[s] = static_cast<std::uint16_t>(std::max<std::uint64_t>(f, 1));
        missing -= frequencies[s];
    }
    for (; missing > 0; --missing) {
        unsigned best = used[0];
        for (unsigned i = 1; i < used_count; ++i)
            if (counts[used[i]] * frequencies[best] > counts[best] * frequencies[used[i]]) best = used[i];
        ++frequencies[best];
    }
    for (; missing < 0; ++missing) {
        unsigned best = context_tokens;
        for (unsigned i = 0; i < used_count; ++i) {
            const unsigned s = used[i];
            if (frequencies[s] == 1) continue;
            if (best == context_tokens || counts[s] * (frequencies[best] - 1u) < counts[best] * (frequencies[s] - 1u))
                best = s;
        }
        --frequencies[best];
    }
}

bool tables_are_valid(const std::uint16_t* frequencies, unsigned tables) noexcept {
    for (; tables > 0; --tables, frequencies += context_tokens)
        if (std::accumulate(frequencies, frequencies + context_tokens, 0u) != scale) return false;
    return true;
}

std::uint64_t cost_in_context(const std::uint64_t* counts, const std::uint16_t* frequencies, unsigned tables) noexcept {
    std::uint64_t cost = 0;
    for (; tables > 0; --tables, frequencies += context_tokens, counts += context_tokens)
        for (unsigned s = 0; s < context_tokens; ++s) {
            if (counts[s] == 0) continue;
            const unsigned coded = frequencies[s] != 0 ? s : escape_token;
            cost += counts[s] * (((scale_log2 + width_of(coded)) << 12) - log2_table[frequencies[coded]]);
        }
    return cost;
}

void fit_tables(const std::uint64_t* counts, FittedTables& fitted) noexcept {
    const std::uint64_t total = std::accumulate(counts, counts + most_contexts * context_tokens, std::uint64_t{0});
    const int half_length = (static_cast<int>(std::bit_width(total)) - 10) / 2;
    const auto precision = static_cast<unsigned>(std::clamp(half_length, 1, static_cast<int>(most_precision)));
    fitted.cost = ~std::uint64_t{0};
    for (unsigned bits = 0; bits <= 4; ++bits) {
        FittedTables tried;
        tried.bits = bits;
        tried.precision = precision;
        std::uint64_t merged[most_contexts * context_tokens] = {};
        for (unsigned i = 0; i < most_contexts * context_tokens; ++i)
            merged[(i / context_tokens >> (4 - bits)) * context_tokens + i % context_tokens] += counts[i];
        const unsigned tables = 1u << bits;
        for (unsigned c = 0; c < tables; ++c) {
            std::uint64_t* of = merged + c * context_tokens;
            std::uint16_t* weights = tried.weights + c * context_tokens;
            escape_outliers(of);
            if (std::all_of(of, of + context_tokens, [](std::uint64_t count) { return count == 0; })) {
                std::fill(weights, weights + context_tokens, std::uint16_t{0});
            } else {
                normalise_in_context(of, weights);
                for (unsigned s = 0; s < context_tokens; ++s)
                    weights[s] = static_cast<std::uint16_t>(rounded(weights[s], precision));
            }
            frequencies_of_weights(weights, tried.frequencies + c * context_tokens);
        }
        std::uint8_t bytes[tables_bound];
        const auto size = static_cast<std::uint64_t>(write_tables(tried, bytes) - bytes);
        tried.cost = cost_in_context(merged, tried.frequencies, tables) + (size << 15);
        if (tried.cost < fitted.cost) fitted = tried;
    }
}

std::uint8_t* write_tables(const FittedTables& fitted, std::uint8_t* out) noexcept {
    BitWriter bits(out);
    bits.put(fitted.precision, 4);
    for (unsigned c = 0; c < 1u << fitted.bits; ++c) {
        const std::uint16_t* weights = fitted.weights + c * context_tokens;
        const std::uint16_t* before = c == 0 ? nullptr : weights - context_tokens;
        const auto put = [&](unsigned s) {
            put_weight(bits, weights[s], before == nullptr ? nullptr : before + s, fitted.precision);
        };
        const unsigned top = top_of(weights);
        put(escape_token);
        bits.put(top, 8);
        for (unsigned s = 0; s <= top; ++s) put(s);
    }
    return bits.finish();
}

void read_tables(ByteReader& reader, unsigned tables, std::uint16_t* frequencies) {
    BitReader bits(reader.next(), reader.end());
    const auto precision = static_cast<unsigned>(bits.get(4));
    if (precision > most_precision) throw MessageError("the message has tables of a precision above 11");
    std::uint16_t weights[2][context_tokens] = {};  // of this table and the one before
    for (unsigned c = 0; c < tables; ++c) {
        std::uint16_t* of = weights[c % 2];
        const std::uint16_t* before = c == 0 ? nullptr : weights[1 - c % 2];
        const auto get = [&](unsigned s) {
            of[s] = static_cast<std::uint16_t>(get_weight(bits, before == nullptr ? nullptr : before + s, precision));
        };
        std::fill(of, of + context_tokens, std::uint16_t{0});
        get(escape_token);
        const auto top = static_cast<unsigned>(bits.get(8));
        if (top >= token_limit) throw MessageError("the message has a token that version 1 does not know");
        for (unsigned s = 0; s <= top; ++s) get(s);
        if (top > 0 && of[top] == 0) throw MessageError("the message has a table that ends in zero");
        frequencies_of_weights(of, frequencies + c * context_tokens);
    }
    reader.move_to(bits.finish());
}

}  // namespace gradwire
