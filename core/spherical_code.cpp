#include "spherical_code.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>

#include "spherical_rice.hpp"

namespace gradwire {
namespace {

using spherical::index_bits;
using spherical::raw_gain;

constexpr unsigned sectioned_flag = 0x20, zeros_flag = 0x40, adaptive_flag = 0x80;
constexpr unsigned norm_bits = 11;
constexpr std::uint32_t raw_norm = 3;
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

// The norm of a block with a gain, where `predicted` is the exponent that was predicted.
std::uint32_t norm_of(std::uint32_t pattern, unsigned level, int predicted) noexcept {
    return 4 * zigzag(static_cast<int>(pattern >> 23) - predicted) + std::min(level, 3u);
}

// The norm of a block that is not of zeros.
std::uint32_t next_norm(float gain, Prediction& prediction) noexcept {
    if (gain == raw_gain) return raw_norm;
    const std::uint32_t norm = norm_of(pattern_of(gain), level_of(gain), prediction.exponent());
    prediction.see(pattern_of(gain));
    return norm;
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

ChosenHead choose_head(const FoundBlocks& found) {
    SphericalHead still, moving;
    moving.adaptive = true;
    std::optional<Prediction> prediction;                // with `moving`
    std::array<std::array<std::uint64_t, 4>, 256> seen{};  // exponents and what a norm tells of levels
    RiceCosts costs(quotient_limit + index_bits);
    std::uint64_t zero = 0, raw = 0, searched = 0, moving_bits = 0;
    for (FoundReader blocks(found, true); blocks.next();) {
        for (std::size_t b = 0; b < blocks.count(); ++b) {
            const float gain = blocks.gain()[b];
            if (!(gain > 0)) {
                ++(gain == 0 ? zero : raw);
                continue;
            }
            ++searched;
            const std::uint32_t pattern = pattern_of(gain), exponent = pattern >> 23;
            const unsigned level = level_of(gain);
            ++seen[exponent][std::min(level, 3u)];
            costs.add(blocks.index()[b]);
            if (!prediction) {
                moving.base = static_cast<std::uint8_t>(exponent);
                prediction.emplace(moving);
            }
            moving_bits += gamma_width(norm_of(pattern, level, prediction->exponent()));
            prediction->see(pattern);
        }
    }
    still.zeros = moving.zeros = zero > 0;
    const std::uint64_t raw_bits = raw * gamma_width(raw_norm), there = raw + searched;
    // A norm of 2·11 + 1 bits, 22 of its level, 22 of a mantissa, 64 + 40 of a point, or an entry's 32 each.
    constexpr std::uint64_t others = 23 + 22, point = 22 + 64 + 40;
    const std::size_t bound =
        (there * others + searched * point + raw * 32 * found.split().most()) / 8 + 1 + write_slack;
    if (searched == 0) return {still, there, bound, raw_bits};
    std::uint64_t most = 0, still_bits = 0;
    for (unsigned exponent = 0; exponent < 256; ++exponent) {
        const auto& levels = seen[exponent];
        const std::uint64_t count = levels[0] + levels[1] + levels[2] + levels[3];
        if (count > most) still.base = static_cast<std::uint8_t>(exponent);
        most = std::max(most, count);
    }
    for (std::uint32_t exponent = 0; exponent < 256; ++exponent)
        for (unsigned level = 0; level < 4; ++level)
            if (seen[exponent][level] > 0)
                still_bits += seen[exponent][level] * gamma_width(norm_of(exponent << 23, level, still.base));
    still.r = moving.r = costs.best();
    return still_bits <= moving_bits ? ChosenHead{still, there, bound, raw_bits + still_bits}
                                     : ChosenHead{moving, there, bound, raw_bits + moving_bits};
}

std::size_t Norms::read(std::uint32_t* norms, std::size_t most) noexcept {
    std::size_t read = 0;
    while (read < most) {
        const float* const gain = gains_.next();
        if (gain == nullptr) break;
        if (*gain != 0) norms[read++] = next_norm(*gain, prediction_);
    }
    return read;
}

std::uint64_t write_bits(const float* x, const FoundBlocks& found, const SphericalHead& head, std::uint8_t* out) {
    BitWriter bits(out);
    Prediction prediction(head);
    for (FoundReader blocks(found, true); blocks.next();) {
        for (std::size_t b = 0; b < blocks.count(); ++b) {
            const float gain = blocks.gain()[b];
            if (gain == 0) continue;
            if (!head.sectioned) {
                const std::uint32_t v = next_norm(gain, prediction);
                const unsigned width = static_cast<unsigned>(std::bit_width(v + 1)) - 1;
                bits.put(std::uint64_t{1} << width, width + 1);
                bits.put(v + 1 - (1u << width), width);
            }
            const unsigned level = level_of(gain);
            if (level >= 3) bits.put(std::uint64_t{1} << (level - 3), level - 2);
            if (level == raw_level) {
                const std::size_t block = blocks.first() + b;
                const float* const entries = x + found.split().begin(block);
                for (std::size_t i = 0; i < found.split().length(block); ++i) bits.put(pattern_of(entries[i]), 32);
                continue;
            }
            if (level >= 2) bits.put((pattern_of(gain) & 0x7FFFFF) >> (24 - level), level - 1);
            const std::uint64_t index = blocks.index()[b], q = index >> head.r;
            if (q < quotient_limit) {
                put_zeros(bits, static_cast<unsigned>(q));
                bits.put(1, 1);
                bits.put(index & ((std::uint64_t{1} << head.r) - 1), head.r);
            } else {
                put_zeros(bits, quotient_limit);
                bits.put(index, index_bits);
            }
        }
    }
    return bits.count(out);
}

std::uint32_t BlockReader::norm() {
    if (head_.sectioned) return *norms_++;
    const unsigned width = get_zeros(bits_, norm_bits + 1);
    const std::uint32_t v = width > norm_bits ? norm_limit : (1u << width) + static_cast<std::uint32_t>(bits_.get(width)) - 1;
    if (v >= norm_limit) throw MessageError("the message has a norm that version 1 does not know");
    return v;
}

void BlockReader::read(std::size_t count, std::uint64_t* index, float* gain, std::vector<float>& raw) {
    for (std::size_t b = 0; b < count; ++b, ++next_) {
        index[b] = 0;
        if (gain[b] == 0) continue;
        const std::uint32_t v = norm();
        unsigned level = v & 3;
        if (level == 3) level += get_zeros(bits_, raw_level - 2);
        if (level > raw_level) throw MessageError("the message has a gain with more than the 23 bits of a mantissa");
        if (level == raw_level) {
            if (v != raw_norm) throw MessageError("the message has a norm for a block that is sent as it is");
            for (std::size_t i = 0; i < split_.length(next_); ++i) {
                raw.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits_.get(32))));
                if (!std::isfinite(raw.back())) throw MessageError("the message holds NaN or infinity");
            }
            if (bits_.overrun()) throw MessageError("the message is cut short inside a bit stream");
            gain[b] = raw_gain;
            continue;
        }
        const int exponent = prediction_.exponent() + unzigzag(v >> 2);
        if (exponent < 1 || exponent > 254)
            throw MessageError("the message has a gain outside the range of normal binary32 numbers");
        auto pattern = static_cast<std::uint32_t>(exponent) << 23;
        if (level > 0) pattern |= (2 * static_cast<std::uint32_t>(bits_.get(level - 1)) + 1) << (23 - level);
        prediction_.see(pattern);
        gain[b] = std::bit_cast<float>(pattern);
        const unsigned q = get_zeros(bits_, quotient_limit);
        index[b] = q < quotient_limit ? std::uint64_t{q} << head_.r | bits_.get(head_.r) : bits_.get(index_bits);
        if (bits_.overrun()) throw MessageError("the message is cut short inside a bit stream");
    }
}

}  // namespace gradwire
