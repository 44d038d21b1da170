#include "rans.hpp"

#include <algorithm>
#include <cstring>

#include "dispatch.hpp"
#include "rans_lanes.hpp"

namespace gradwire {
namespace {

void fill_decode_table(const Frequencies& frequencies, DecodeTable& table) noexcept {
    std::uint32_t* slot = table.slot;
    for (unsigned s = 0; s <= frequencies.top; ++s) {
        const std::uint32_t f = frequencies.of[s];
        for (std::uint32_t i = 0; i < f; ++i) *slot++ = s | (f - 1) << 8 | i << 20;
    }
}

template <unsigned lanes>
std::uint16_t* encode_groups_portable(const std::uint8_t* tokens, std::size_t groups, const EncodeTable& table,
                                      std::uint32_t* states, std::uint16_t* stack, const std::uint8_t*) {
    std::uint32_t x[lanes];
    std::copy(states, states + lanes, x);
    for (std::size_t g = groups; g-- > 0;) {
        const std::uint8_t* group = tokens + g * lanes;
        for (unsigned lane = lanes; lane-- > 0;) stack = encode_step(x[lane], table.step[group[lane]], stack);
    }
    std::copy(x, x + lanes, states);
    return stack;
}

template <unsigned lanes>
std::size_t decode_groups_portable(std::uint8_t* tokens, std::size_t groups, const DecodeTable& table,
                                   std::uint32_t* states, const std::uint8_t*& words, const std::uint8_t* last) {
    std::uint32_t x[lanes];
    std::copy(states, states + lanes, x);
    const std::uint8_t* next = words;
    std::size_t g = 0;
    for (; g < groups && next <= last; ++g) {
        std::uint8_t* group = tokens + g * lanes;
        for (unsigned lane = 0; lane < lanes; ++lane) {
            std::uint32_t y = x[lane];
            group[lane] = decode_step(y, table);
            const std::uint32_t low = y < lowest_state;
            // No branch: which lane needs a word is as good as random.
            x[lane] = y << (low * 16) | (load<std::uint16_t>(next) & (0u - low));
            next += 2 * low;
        }
    }
    std::copy(x, x + lanes, states);
    words = next;
    return g;
}

EncodeGroups encoder(unsigned lanes) noexcept {
#if defined(__x86_64__)
    if (lanes >= 16 && simd() == Simd::avx512) return encode_groups_avx512(lanes);
    if (lanes >= 16 && simd() == Simd::avx2) return encode_groups_avx2(lanes);
#endif
    switch (lanes) {
        case 1: return encode_groups_portable<1>;
        case 2: return encode_groups_portable<2>;
        case 4: return encode_groups_portable<4>;
        case 8: return encode_groups_portable<8>;
        case 16: return encode_groups_portable<16>;
        case 32: return encode_groups_portable<32>;
        default: return encode_groups_portable<64>;
    }
}

DecodeGroups decoder(unsigned lanes) noexcept {
#if defined(__x86_64__)
    if (lanes >= 16 && simd() == Simd::avx512) return decode_groups_avx512(lanes);
    if (lanes >= 16 && simd() == Simd::avx2) return decode_groups_avx2(lanes);
#endif
    switch (lanes) {
        case 1: return decode_groups_portable<1>;
        case 2: return decode_groups_portable<2>;
        case 4: return decode_groups_portable<4>;
        case 8: return decode_groups_portable<8>;
        case 16: return decode_groups_portable<16>;
        case 32: return decode_groups_portable<32>;
        default: return decode_groups_portable<64>;
    }
}

// Only one token is in use: f = 4096, and a step leaves the state as it is.
bool single(const Frequencies& frequencies) noexcept { return frequencies.of[frequencies.top] == scale; }

void check_end(const std::uint32_t* states, unsigned lanes) {
    for (unsigned lane = 0; lane < lanes; ++lane)
        if (states[lane] != lowest_state)
            throw MessageError("the message has a block whose lanes do not end in the state 2^16");
}

}  // namespace

EncodeTable make_encode_table(const Frequencies& frequencies) noexcept {
    EncodeTable table;
    table.top = frequencies.top;
    std::uint32_t start = 0;
    for (unsigned s = 0; s <= frequencies.top; ++s) {
        const std::uint32_t f = frequencies.of[s];
        if (f == 0) {
            table.step[s] = {};
            table.inverse[s] = 0;
            table.start_frequency[s] = 0;
            continue;
        }
        // ⌈2^64 / f⌉ is exact for x < 2^32. It does not fit for f = 1: there 2^64 − 1 gives x − 1, which bias makes up for.
        table.step[s] = f == 1 ? EncodeTable::Step{~std::uint64_t{0}, start + scale - 1, 1, scale - 1}
                               : EncodeTable::Step{~std::uint64_t{0} / f + 1, start, static_cast<std::uint16_t>(f),
                                                   static_cast<std::uint16_t>(scale - f)};
        // x < f·2^20, so x / f < 2^20. Rounding x, 1 / f and their product costs 3·2^−24 at most; 2^−21 less keeps the
        // quotient from ever being too large, and it stays less than 1 too small. That holds too where x has its low 16
        // bits still: ⌊⌊x / 2^16⌋ / f⌋ = ⌊x / (2^16·f)⌋.
        table.inverse[s] = static_cast<float>((1.0 - 0x1p-21) / f);
        table.start_frequency[s] = start << 16 | f;
        start += f;
    }
    // The rest is looked up by nobody but has to hold something.
    for (unsigned s = frequencies.top + 1; s < token_limit + 20; ++s) {
        table.inverse[s] = 0;
        table.start_frequency[s] = 0;
    }
    return table;
}

TokenCounts count_tokens(const std::uint8_t* tokens, std::size_t m) noexcept {
    // Four tables, so that a run of equal tokens does not wait for its own last increment.
    std::uint32_t tables[4][256] = {};
    std::size_t i = 0;
#if defined(__x86_64__)
    if (simd() == Simd::avx512) i = count_tokens_avx512(tokens, m, tables[0]);
    if (simd() == Simd::avx2) i = count_tokens_avx2(tokens, m, tables[0]);
#endif
    for (; i + 8 <= m; i += 8) {
        const auto eight = load<std::uint64_t>(tokens + i);
        for (unsigned j = 0; j < 8; ++j) ++tables[j & 3][eight >> (8 * j) & 0xFF];
    }
    for (; i < m; ++i) ++tables[0][tokens[i]];
    TokenCounts counts;
    for (unsigned s = 0; s < token_limit; ++s) counts[s] = tables[0][s] + tables[1][s] + tables[2][s] + tables[3][s];
    return counts;
}

Frequencies normalise(const TokenCounts& counts) noexcept {
    std::uint64_t total = 0;
    for (const std::uint32_t c : counts) total += c;

    Frequencies result;
    std::array<std::uint8_t, token_limit> used;
    unsigned used_count = 0;
    std::int64_t missing = scale;
    for (unsigned s = 0; s < token_limit; ++s) {
        if (counts[s] == 0) continue;
        used[used_count++] = static_cast<std::uint8_t>(s);
        const std::uint64_t f = (2 * std::uint64_t{scale} * counts[s] + total) / (2 * total);
        result.of[s] = static_cast<std::uint16_t>(std::max<std::uint64_t>(f, 1));
        missing -= result.of[s];
        result.top = s;
    }

    const auto count = [&](unsigned s) { return std::uint64_t{counts[s]}; };
    for (; missing > 0; --missing) {
        unsigned best = used[0];
        for (unsigned i = 1; i < used_count; ++i)
            if (count(used[i]) * result.of[best] > count(best) * result.of[used[i]]) best = used[i];
        ++result.of[best];
    }
    for (; missing < 0; ++missing) {
        unsigned best = token_limit;
        for (unsigned i = 0; i < used_count; ++i) {
            const unsigned s = used[i];
            if (result.of[s] == 1) continue;
            if (best == token_limit || count(s) * (result.of[best] - 1u) < count(best) * (result.of[s] - 1u)) best = s;
        }
        --result.of[best];
    }
    return result;
}

unsigned lanes_log2(const TokenCounts& counts, const Frequencies& frequencies) noexcept {
    std::uint64_t cost = 0;  // in 256ths of a bit
    for (unsigned s = 0; s <= frequencies.top; ++s) {
        const std::uint32_t f = frequencies.of[s];
        if (f == 0) continue;
        const auto whole = static_cast<unsigned>(std::bit_width(f)) - 1;
        const std::uint32_t log2 = 256 * whole + ((256 * f) >> whole) - 256;
        cost += std::uint64_t{counts[s]} * (256 * scale_log2 - log2);
    }
    unsigned result = 0;
    for (const unsigned threshold : {10, 11, 12, 13, 18, 19}) result += (cost >> 8) >> threshold != 0;
    return result;
}

std::uint8_t* write_frequencies(const Frequencies& frequencies, std::uint8_t* out) noexcept {
    *out++ = static_cast<std::uint8_t>(frequencies.top);
    BitWriter bits(out);
    for (unsigned s = 0; s <= frequencies.top; ++s) {
        const std::uint32_t f = frequencies.of[s];
        const auto length = static_cast<unsigned>(std::bit_width(f));
        bits.put(length, 4);
        if (length > 1) bits.put(f ^ 1u << (length - 1), length - 1);
    }
    return bits.finish();
}

Frequencies read_frequencies(ByteReader& reader) {
    Frequencies result;
    result.top = reader.byte();
    if (result.top >= token_limit) throw MessageError("the message has a token that version 1 does not know");
    BitReader bits(reader.next(), reader.end());
    std::uint32_t sum = 0;
    for (unsigned s = 0; s <= result.top; ++s) {
        const auto length = static_cast<unsigned>(bits.get(4));
        if (length > scale_log2 + 1) throw MessageError("the message has a frequency above 4096");
        if (length == 0) continue;
        const auto f = static_cast<std::uint32_t>(1u << (length - 1) | bits.get(length - 1));
        result.of[s] = static_cast<std::uint16_t>(f);
        sum += f;
    }
    reader.move_to(bits.finish());
    if (sum != scale || result.of[result.top] == 0)
        throw MessageError("the message has a block whose frequencies do not sum to 4096 or end in zero");
    return result;
}

std::size_t rans_encode(const std::uint8_t* tokens, std::size_t m, const Frequencies& frequencies, unsigned lanes,
                        std::uint32_t* states, std::uint16_t* stack, const void* soon) noexcept {
    std::fill(states, states + lanes, lowest_state);
    if (single(frequencies)) return 0;
    const EncodeTable table = make_encode_table(frequencies);
    std::uint16_t* top = stack;
    const std::size_t groups = m / lanes;
    for (std::size_t j = m; j-- > groups * lanes;)
        top = encode_step(states[j - groups * lanes], table.step[tokens[j]], top);
    // Where nothing is wanted, the stack itself is asked for.
    const void* const asked = soon == nullptr ? stack : soon;
    top = encoder(lanes)(tokens, groups, table, states, top, static_cast<const std::uint8_t*>(asked));
    return static_cast<std::size_t>(top - stack);
}

void rans_decode(std::uint8_t* tokens, std::size_t m, const Frequencies& frequencies, unsigned lanes,
                 const std::uint8_t* states, const std::uint8_t* words, std::size_t word_count) {
    std::uint32_t x[most_lanes];
    std::memcpy(x, states, 4 * std::size_t{lanes});
    for (unsigned lane = 0; lane < lanes; ++lane)
        if (x[lane] < lowest_state) throw MessageError("the message has a lane state below 2^16");
    if (single(frequencies)) {
        if (word_count != 0) throw MessageError("the message has a block with words left over");
        check_end(x, lanes);
        std::memset(tokens, static_cast<int>(frequencies.top), m);
        return;
    }

    DecodeTable table;
    fill_decode_table(frequencies, table);
    const std::size_t groups = m / lanes;
    const DecodeGroups decode = decoder(lanes);
    const std::uint8_t* end = words + 2 * word_count;
    std::size_t done = 0;
    if (word_count >= lanes) done = decode(tokens, groups, table, x, words, end - 2 * lanes);

    // Fewer words are left than a group may take: copied to where zeros follow, it need not look for their end.
    std::uint8_t rest[4 * most_lanes] = {};
    if (done < groups) {
        const auto size = static_cast<std::size_t>(end - words);
        std::memcpy(rest, words, size);
        words = rest;
        end = rest + size;
        done += decode(tokens + done * lanes, groups - done, table, x, words, end);
    }
    bool enough = done == groups && words <= end;
    for (std::size_t j = groups * lanes; enough && j < m; ++j) {
        std::uint32_t& state = x[j - groups * lanes];
        tokens[j] = decode_step(state, table);
        if (state >= lowest_state) continue;
        enough = words < end;
        if (!enough) break;
        state = state << 16 | load<std::uint16_t>(words);
        words += 2;
    }
    if (!enough) throw MessageError("the message has a block with too few words");
    if (words != end) throw MessageError("the message has a block with words left over");
    check_end(x, lanes);
}

}  // namespace gradwire
