// What rans.cpp and contextual.cpp share: loops over groups without SIMD, and a block's words up to their end.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "rans_lanes.hpp"

namespace gradwire {

// What a token of frequency f costs, in 256ths of a bit.
inline std::uint32_t token_cost(std::uint32_t f) noexcept {
    const auto whole = static_cast<unsigned>(std::bit_width(f)) - 1;
    return 256 * scale_log2 - (256 * whole + ((256 * f) >> whole) - 256);
}

// The slots of tokens 0 … count − 1 with these frequencies; returns their end.
inline std::uint32_t* fill_slots(const std::uint16_t* frequencies, unsigned count, std::uint32_t* slot) noexcept {
    for (unsigned s = 0; s < count; ++s) {
        const std::uint32_t f = frequencies[s];
        for (std::uint32_t i = 0; i < f; ++i) *slot++ = s | (f - 1) << 8 | i << 20;
    }
    return slot;
}

template <unsigned count>
using Lanes = std::integral_constant<unsigned, count>;

// make(Lanes<lanes>{}) for a number of lanes that is known only now.
template <class Make>
auto with_lanes(unsigned lanes, const Make& make) noexcept {
    switch (lanes) {
        case 1: return make(Lanes<1>{});
        case 2: return make(Lanes<2>{});
        case 4: return make(Lanes<4>{});
        case 8: return make(Lanes<8>{});
        case 16: return make(Lanes<16>{});
        case 32: return make(Lanes<32>{});
        default: return make(Lanes<64>{});
    }
}

// As EncodeGroups; step has one for every token.
template <unsigned lanes, class Token>
std::uint16_t* encode_groups_portable(const Token* tokens, std::size_t groups, const EncodeTable::Step* step,
                                      std::uint32_t* states, std::uint16_t* stack) noexcept {
    std::uint32_t x[lanes];
    std::copy(states, states + lanes, x);
    for (std::size_t g = groups; g-- > 0;) {
        const Token* group = tokens + g * lanes;
        for (unsigned lane = lanes; lane-- > 0;) stack = encode_step(x[lane], step[group[lane]], stack);
    }
    std::copy(x, x + lanes, states);
    return stack;
}

// As DecodeGroups; decode(j, state) takes token number j from a state.
template <unsigned lanes, class Decode>
std::size_t decode_groups_portable(std::size_t groups, std::uint32_t* states, const std::uint8_t*& words,
                                   const std::uint8_t* last, const Decode& decode) noexcept {
    std::uint32_t x[lanes];
    std::copy(states, states + lanes, x);
    const std::uint8_t* next = words;
    std::size_t g = 0;
    for (; g < groups && next <= last; ++g)
        for (unsigned lane = 0; lane < lanes; ++lane) {
            std::uint32_t y = x[lane];
            decode(g * lanes + lane, y);
            const std::uint32_t low = y < lowest_state;
            // No branch: which lane needs a word is as good as random.
            x[lane] = y << (low * 16) | (load<std::uint16_t>(next) & (0u - low));
            next += 2 * low;
        }
    std::copy(x, x + lanes, states);
    words = next;
    return g;
}

// A block's states and words, which are read to their end or it raises.
struct BlockWords {
    BlockWords(const std::uint8_t* states, unsigned lane_count, const std::uint8_t* first, std::size_t count)
        : lanes(lane_count), words(first), end(first + 2 * count) {
        std::memcpy(x, states, 4 * std::size_t{lanes});
        for (unsigned lane = 0; lane < lanes; ++lane)
            if (x[lane] < lowest_state) throw MessageError("the message has a lane state below 2^16");
    }

    // m tokens: decode_groups(first, groups, last) decodes some groups from token number `first` on, as DecodeGroups, and
    // one(j, state) a single one.
    template <class Groups, class One>
    void decode(std::size_t m, const Groups& decode_groups, const One& one) {
        const std::size_t groups = m / lanes;
        std::size_t done = 0;
        if (static_cast<std::size_t>(end - words) >= 2 * std::size_t{lanes})
            done = decode_groups(std::size_t{0}, groups, end - 2 * lanes);

        // Fewer words are left than a group may take: copied to where zeros follow, it need not look for their end.
        std::uint8_t rest[4 * most_lanes] = {};
        if (done < groups) {
            const auto size = static_cast<std::size_t>(end - words);
            std::memcpy(rest, words, size);
            words = rest;
            end = rest + size;
            done += decode_groups(done * lanes, groups - done, end);
        }
        bool enough = done == groups && words <= end;
        for (std::size_t j = groups * lanes; enough && j < m; ++j) {
            std::uint32_t& state = x[j - groups * lanes];
            one(j, state);
            if (state >= lowest_state) continue;
            enough = words < end;
            if (!enough) break;
            state = state << 16 | load<std::uint16_t>(words);
            words += 2;
        }
        if (!enough) throw MessageError("the message has a block with too few words");
        check_end();
    }

    void check_end() const {
        if (words != end) throw MessageError("the message has a block with words left over");
        for (unsigned lane = 0; lane < lanes; ++lane)
            if (x[lane] != lowest_state)
                throw MessageError("the message has a block whose lanes do not end in the state 2^16");
    }

    std::uint32_t x[most_lanes];
    unsigned lanes;
    const std::uint8_t* words;
    const std::uint8_t* end;
};

}  // namespace gradwire
