#include "spherical_code.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "spherical_rice.hpp"

namespace gradwire {
namespace {

using spherical::index_bits;
using spherical::raw_gain;

constexpr unsigned sectioned_flag = 0x20, zeros_flag = 0x40, adaptive_flag = 0x80;
constexpr unsigned norm_limit = 2048, norm_bits = 11;
constexpr unsigned raw_level = 24;  // a mantissa has 23 bits
constexpr unsigned quotient_limit = 64;

unsigned pattern_of(float gain) noexcept { return std::bit_cast<std::uint32_t>(gain); }

// How many bits of the mantissa are sent.
unsigned level_of(float gain) noexcept {
    return gain == raw_gain ? raw_level : 23 - std::min(23, std::countr_zero(pattern_of(gain)));
}

std::uint32_t zigzag(int s) noexcept { return (static_cast<std::uint32_t>(s) << 1) ^ static_cast<std::uint32_t>(s >> 31); }

int unzigzag(std::uint32_t v) noexcept { return static_cast<int>((v >> 1) ^ (0u - (v & 1))); }

unsigned gamma_width(std::uint32_t v) noexcept { return 2 * static_cast<unsigned>(std::bit_width(v + 1)) - 1; }

// The norm of a block that is not of zeros.
std::uint32_t norm_of(float gain, Prediction& prediction) noexcept {
    const std::uint32_t low = std::min(level_of(gain), 3u);
    if (gain == raw_gain) return low;
    const std::uint32_t pattern = pattern_of(gain);
    const std::uint32_t norm = 4 * zigzag(static_cast<int>(pattern >> 23) - prediction.exponent()) + low;
    prediction.see(pattern);
    return norm;
}

std::uint64_t gamma_bits(const float* gain, std::size_t m, const SphericalHead& head) noexcept {
    Prediction prediction(head);
    std::uint64_t bits = 0;
    for (std::size_t b = 0; b < m; ++b)
        if (gain[b] != 0) bits += gamma_width(norm_of(gain[b], prediction));
    return bits;
}

void put_zeros(BitWriter& bits, unsigned count) noexcept {
    for (; count > 32; count -= 32) bits.put(0, 32);
    bits.put(0, count);
}

// Zeros before a one, which is passed too; `most` zeros have no one behind them. Beyond the message's end there are
// zeros only.
unsigned get_zeros(BitReader& bits, unsigned most) noexcept {
    unsigned count = 0;
    while (count < most) {
        const auto run = std::min<unsigned>(static_cast<unsigned>(std::countr_zero(bits.peek())), 56);
        if (count + run >= most) {
            bits.skip(most - count);
            return most;
        }
        bits.skip(run);
        count += run;
        if (run < 56) {
            bits.skip(1);
            break;
        }
    }
    return count;
}

}  // namespace

SphericalHead read_head(ByteReader& reader) {
    const unsigned byte = reader.byte();
    SphericalHead head;
    head.r = byte & 31;
    head.sectioned = byte & sectioned_flag;
    head.zeros = byte & zeros_flag;
    head.adaptive = byte & adaptive_flag;
    head.base = reader.byte();
    return head;
}

std::uint8_t* write_head(const SphericalHead& head, std::uint8_t* out) noexcept {
    *out++ = static_cast<std::uint8_t>(head.r | (head.sectioned ? sectioned_flag : 0) | (head.zeros ? zeros_flag : 0) |
                                       (head.adaptive ? adaptive_flag : 0));
    *out++ = head.base;
    return out;
}

ChosenHead choose_head(PointNumbers index, const float* gain, std::size_t m) noexcept {
    SphericalHead still, moving;
    moving.adaptive = true;
    std::uint32_t counts[256] = {};
    RiceCosts costs(quotient_limit + index_bits);
    bool searched = false;
    std::size_t there = 0;
    for (std::size_t b = 0; b < m; ++b) {
        there += gain[b] != 0;
        if (!(gain[b] > 0)) continue;
        const unsigned exponent = pattern_of(gain[b]) >> 23;
        ++counts[exponent];
        costs.add(index[b]);
        if (!searched) moving.base = static_cast<std::uint8_t>(exponent);
        searched = true;
    }
    still.zeros = moving.zeros = there < m;
    if (!searched) return {still, there, gamma_bits(gain, m, still)};
    still.base = static_cast<std::uint8_t>(std::max_element(counts, counts + 256) - counts);
    still.r = moving.r = costs.best();
    const std::uint64_t bits = gamma_bits(gain, m, still), others = gamma_bits(gain, m, moving);
    return bits <= others ? ChosenHead{still, there, bits} : ChosenHead{moving, there, others};
}

std::size_t Norms::read(std::uint32_t* norms, std::size_t most) noexcept {
    std::size_t count = 0;
    for (; gain_ != end_ && count < most; ++gain_)
        if (*gain_ != 0) norms[count++] = norm_of(*gain_, prediction_);
    return count;
}

std::size_t bits_bound(const float* gain, const BlockSplit& split) noexcept {
    // A norm of 2·11 + 1 bits, 22 of its level, 22 of a mantissa, 64 + 40 of a point, or an entry's 32 each.
    constexpr std::size_t others = 23 + 22, searched = 22 + 64 + 40;
    std::size_t bits = 0;
    for (std::size_t b = 0; b < split.m; ++b)
        if (gain[b] != 0) bits += others + (gain[b] == raw_gain ? 32 * split.length(b) : searched);
    return bits / 8 + 1 + write_slack;
}

std::uint64_t write_bits(const float* x, const BlockSplit& split, PointNumbers index, const float* gain,
                         const SphericalHead& head, std::uint8_t* out) noexcept {
    BitWriter bits(out);
    Prediction prediction(head);
    for (std::size_t b = 0; b < split.m; ++b) {
        if (gain[b] == 0) continue;
        if (!head.sectioned) {
            const std::uint32_t v = norm_of(gain[b], prediction);
            const unsigned width = static_cast<unsigned>(std::bit_width(v + 1)) - 1;
            bits.put(std::uint64_t{1} << width, width + 1);
            bits.put(v + 1 - (1u << width), width);
        }
        const unsigned level = level_of(gain[b]);
        if (level >= 3) bits.put(std::uint64_t{1} << (level - 3), level - 2);
        if (level == raw_level) {
            const float* const entries = x + split.begin(b);
            for (std::size_t i = 0; i < split.length(b); ++i) bits.put(pattern_of(entries[i]), 32);
            continue;
        }
        if (level >= 2) bits.put((pattern_of(gain[b]) & 0x7FFFFF) >> (24 - level), level - 1);
        const std::uint64_t q = index[b] >> head.r;
        if (q < quotient_limit) {
            put_zeros(bits, static_cast<unsigned>(q));
            bits.put(1, 1);
            bits.put(index[b] & ((std::uint64_t{1} << head.r) - 1), head.r);
        } else {
            put_zeros(bits, quotient_limit);
            bits.put(index[b], index_bits);
        }
    }
    return bits.count(out);
}

void read_bits(ByteReader& reader, const BlockSplit& split, const SphericalHead& head, const std::uint32_t* norms,
               std::uint64_t* index, float* gain, float* values) {
    BitReader bits(reader.next(), reader.end());
    Prediction prediction(head);
    for (std::size_t b = 0; b < split.m; ++b) {
        index[b] = 0;
        if (gain[b] == 0) {
            std::fill_n(values + split.begin(b), split.length(b), 0.0f);
            continue;
        }
        std::uint32_t v;
        if (head.sectioned) {
            v = *norms++;
        } else {
            const unsigned width = get_zeros(bits, norm_bits + 1);
            if (width > norm_bits) throw MessageError("the message has a norm that version 1 does not know");
            v = (1u << width) + static_cast<std::uint32_t>(bits.get(width)) - 1;
        }
        if (v >= norm_limit) throw MessageError("the message has a norm that version 1 does not know");
        unsigned level = v & 3;
        if (level == 3) level += get_zeros(bits, raw_level - 2);
        if (level > raw_level) throw MessageError("the message has a gain with more than the 23 bits of a mantissa");
        if (level == raw_level) {
            if (v != 3) throw MessageError("the message has a norm for a block that is sent as it is");
            float* const entries = values + split.begin(b);
            for (std::size_t i = 0; i < split.length(b); ++i) {
                entries[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits.get(32)));
                if (!std::isfinite(entries[i])) throw MessageError("the message holds NaN or infinity");
            }
            gain[b] = raw_gain;
            continue;
        }
        const int exponent = prediction.exponent() + unzigzag(v >> 2);
        if (exponent < 1 || exponent > 254)
            throw MessageError("the message has a gain outside the range of normal binary32 numbers");
        auto pattern = static_cast<std::uint32_t>(exponent) << 23;
        if (level > 0) pattern |= (2 * static_cast<std::uint32_t>(bits.get(level - 1)) + 1) << (23 - level);
        prediction.see(pattern);
        gain[b] = std::bit_cast<float>(pattern);
        const unsigned q = get_zeros(bits, quotient_limit);
        index[b] = q < quotient_limit ? std::uint64_t{q} << head.r | bits.get(head.r) : bits.get(index_bits);
        if (bits.overrun()) throw MessageError("the message is cut short inside a bit stream");
    }
    reader.move_to(bits.finish());
}

}  // namespace gradwire
