// Counts of tokens by adding one-hot bytes bit by bit: eight tokens, a bit of a byte each, are counted together. Only for
// the files of an instruction set, each of which brings registers of its own, in a namespace without a name:
//
//   Value, width (bytes), zero(), load(p)
//   sum(a, b, c), majority(a, b, c)   bit by bit
//   one_hot(tokens, first)            bit s of a byte is set where its token is first + s, s < 8; else the byte is 0
//   add_bit(counts, a, s)             adds 1 to the bytes of counts where a has bit s
//   total(counts)                     the sum of its bytes
//   ones(a, s)                        how many bytes have bit s
//   largest(a, b), reaching(a, low)   the larger of each two bytes; a mask of the bytes ≥ low
#pragma once

#include <bit>

#include "rans_lanes.hpp"

namespace gradwire {

inline constexpr unsigned tokens_at_once = 8;

// Counts of each bit of a register's bytes, in binary: part[i] holds the digits of weight 2^i.
template <class R>
struct Digits {
    using Value = typename R::Value;
    Value part[4] = {R::zero(), R::zero(), R::zero(), R::zero()};

    // Adds a and b, of weight 2^i each; returns the carry.
    template <unsigned i>
    GRADWIRE_INLINE Value add(Value a, Value b) noexcept {
        const Value carry = R::majority(part[i], a, b);
        part[i] = R::sum(part[i], a, b);
        return carry;
    }

    // Adds 2^i registers of read(first), read(first + 1), …; returns the carry, of weight 2^i.
    template <unsigned i, class Read>
    GRADWIRE_INLINE Value add_all(const Read& read, std::size_t first) noexcept {
        if constexpr (i == 0) {
            return read(first);
        } else {
            const Value a = add_all<i - 1>(read, first);
            return add<i - 1>(a, add_all<i - 1>(read, first + (1u << (i - 1))));
        }
    }

    std::uint32_t of_bit(unsigned bit) const noexcept {
        std::uint32_t sum = 0;
        for (unsigned i = 0; i < 4; ++i) sum += R::ones(part[i], bit) << i;
        return sum;
    }
};

// Registers of tokens as one-hot bytes.
template <class R>
struct OneHots {
    const std::uint8_t* tokens;
    unsigned first;
    GRADWIRE_INLINE typename R::Value operator()(std::size_t i) const noexcept {
        return R::one_hot(R::load(tokens + R::width * i), first);
    }
};

// Counts the tokens first … first + 7 among `count` registers of tokens, 16·255 at most; returns how many there are.
template <class R>
std::size_t count_eight(const std::uint8_t* tokens, std::size_t count, unsigned first, std::uint32_t* counts) noexcept {
    using Value = typename R::Value;
    const OneHots<R> read{tokens, first};
    Digits<R> digits, rest;
    Value sixteens[tokens_at_once];
    for (Value& s : sixteens) s = R::zero();
    std::size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const Value carry = digits.template add_all<4>(read, i);
#pragma GCC unroll 8
        for (unsigned s = 0; s < tokens_at_once; ++s) sixteens[s] = R::add_bit(sixteens[s], carry, s);
    }
    for (; i < count; ++i) {  // fewer than 16: they fit into four digits
        Value carry = rest.template add<0>(read(i), R::zero());
        carry = rest.template add<1>(carry, R::zero());
        carry = rest.template add<2>(carry, R::zero());
        rest.template add<3>(carry, R::zero());
    }
    std::size_t seen = 0;
    for (unsigned s = 0; s < tokens_at_once; ++s) {
        const std::uint32_t found = 16 * R::total(sixteens[s]) + digits.of_bit(s) + rest.of_bit(s);
        counts[s] += found;
        seen += found;
    }
    return seen;
}

// The tokens of a run: eight at a time, for as long as there are many; the others are picked out one by one.
template <class R>
std::size_t count_whole_registers(const std::uint8_t* tokens, std::size_t m, std::uint32_t* counts) noexcept {
    constexpr std::size_t width = R::width, run = std::size_t{1} << 14;  // is gone through again in the first cache
    const std::size_t whole = m / width * width;
    for (std::size_t begin = 0; begin < whole; begin += run) {
        const std::size_t end = begin + run < whole ? begin + run : whole;
        std::size_t left = end - begin;
        unsigned first = 0;
        for (; left > (end - begin) / 256; first += tokens_at_once)
            left -= count_eight<R>(tokens + begin, (end - begin) / width, first, counts + first);
        if (left == 0) continue;
        for (std::size_t j = begin; j < end; j += 4 * width) {
            const std::size_t next = j + 4 * width < end ? j + 4 * width : end;
            typename R::Value top = R::load(tokens + j);
            for (std::size_t i = j + width; i < next; i += width) top = R::largest(top, R::load(tokens + i));
            if (R::reaching(top, first) == 0) continue;
            for (std::size_t i = j; i < next; i += width)
                for (auto kept = R::reaching(R::load(tokens + i), first); kept != 0; kept &= kept - 1)
                    ++counts[tokens[i + static_cast<unsigned>(std::countr_zero(kept))]];
        }
    }
    return whole;
}

}  // namespace gradwire
