// The Rice parameter that a set of numbers takes the fewest bits with, from one pass over them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace gradwire {

// Numbers are below 2^40. Each takes q + 1 + r bits with parameter r, q = number >> r, or `escape` where q ≥ 2^6.
class RiceCosts {
public:
    explicit RiceCosts(unsigned escape) noexcept : escape_(escape) {}

    // A number's six leading bits are all that matters: a quotient has no more, or takes the escape.
    void add(std::uint64_t number) noexcept {
        const auto width = static_cast<unsigned>(std::bit_width(number));
        ++counts_[width][(number << leading) >> width & 31];
        widest_ = width > widest_ ? width : widest_;
    }

    // The least such parameter, of 0 … 31.
    unsigned best() const noexcept {
        std::uint64_t least = ~std::uint64_t{0};
        unsigned best = 0;
        for (unsigned r = 0; r < 32 && r <= widest_; ++r)  // beyond, there are no quotients to shorten
            if (const std::uint64_t bits = bits_with(r); bits < least) {
                least = bits;
                best = r;
            }
        return best;
    }

private:
    static constexpr unsigned leading = 6, widths = 41;

    std::uint64_t bits_with(unsigned r) const noexcept {
        std::uint64_t bits = 0;
        for (unsigned width = 0; width <= widest_; ++width)
            for (unsigned low = 0; low < 32; ++low) {
                const std::uint64_t count = counts_[width][low];
                if (count == 0) continue;
                const std::uint64_t six = width == 0 ? 0 : 32 + low;
                const unsigned there = width > r ? width - r : 0;  // bits of the quotient
                bits += count * (there > leading ? escape_ : (six >> (leading - there)) + 1 + r);
            }
        return bits;
    }

    unsigned escape_, widest_ = 0;
    std::uint64_t counts_[widths][32] = {};
};

}  // namespace gradwire
