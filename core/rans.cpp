#include "rans.hpp"

#include <algorithm>
#include <cstring>

#include "dispatch.hpp"
#include "rans_words.hpp"

namespace gradwire {
namespace {

EncodeGroups encoder(unsigned lanes) noexcept {
#if defined(__x86_64__)
    if (lanes >= 16 && simd() == Simd::avx512) return encode_groups_avx512(lanes);
    if (lanes >= 16 && simd() == Simd::avx2) return encode_groups_avx2(lanes);
#endif
    return with_lanes(lanes, []<unsigned count>(Lanes<count>) -> EncodeGroups {
        return [](const std::uint8_t* tokens, std::size_t groups, const EncodeTable& table, std::uint32_t* states,
                  std::uint16_t* stack, const std::uint8_t*) {
            return encode_groups_portable<count>(tokens, groups, table.step, states, stack);
        };
    });
}

DecodeGroups decoder(unsigned lanes) noexcept {
#if defined(__x86_64__)
    if (lanes >= 16 && simd() == Simd::avx512) return decode_groups_avx512(lanes);
    if (lanes >= 16 && simd() == Simd::avx2) return decode_groups_avx2(lanes);
#endif
    return with_lanes(lanes, []<unsigned count>(Lanes<count>) -> DecodeGroups {
        return [](std::uint8_t* tokens, std::size_t groups, const DecodeTable& table, std::uint32_t* states,
                  const std::uint8_t*& words, const std::uint8_t* last) {
            const auto decode = [&](std::size_t j, std::uint32_t& y) { tokens[j] = decode_step(y, table.slot); };
            return decode_groups_portable<count>(groups, states, words, last, decode);
        };
    });
}

// Only one token is in use: f = 4096, and a step leaves the state as it is.
bool single(const Frequencies& frequencies) noexcept { return frequencies.of[frequencies.top] == scale; }

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
        table.step[s] = step_of(start, f);
        table.inverse[s] = below_inverse(f);
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
        if (frequencies.of[s] != 0) cost += std::uint64_t{counts[s]} * token_cost(frequencies.of[s]);
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
    BlockWords block(states, lanes, words, word_count);
    if (single(frequencies)) {
        block.check_end();
        std::memset(tokens, static_cast<int>(frequencies.top), m);
        return;
    }
    DecodeTable table;
    fill_slots(frequencies.of.data(), frequencies.top + 1, table.slot);
    const DecodeGroups groups = decoder(lanes);
    block.decode(
        m,
        [&](std::size_t first, std::size_t count, const std::uint8_t* last) {
            return groups(tokens + first, count, table, block.x, block.words, last);
        },
        [&](std::size_t j, std::uint32_t& state) { tokens[j] = decode_step(state, table.slot); });
}

}  // namespace gradwire
