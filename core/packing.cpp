#include "packing.hpp"

#include <cstring>
#include <utility>

namespace gradwire {
namespace {

// Eight fields of w bits are w bytes: with the width known, every shift is a constant and the loop has no state.
template <unsigned width>
void pack_eights(const std::uint32_t* values, std::size_t eights, std::uint8_t* out) noexcept {
    if constexpr (width > 0) {
        constexpr std::uint32_t mask = (1u << width) - 1;
        for (; eights > 0; --eights, values += 8, out += width) {
            std::uint64_t words[4] = {};
#pragma GCC unroll 8
            for (unsigned i = 0; i < 8; ++i) {
                const unsigned bit = i * width;
                const std::uint64_t value = values[i] & mask;
                words[bit / 64] |= value << bit % 64;
                if (bit % 64 + width > 64) words[bit / 64 + 1] |= value >> 1 >> (63 - bit % 64);
            }
            std::memcpy(out, words, width);
        }
    }
}

template <unsigned width>
void unpack_eights(const std::uint8_t* data, std::size_t eights, std::uint32_t* values) noexcept {
    constexpr std::uint64_t mask = (1u << width) - 1;
    for (; eights > 0; --eights, values += 8, data += width) {
        std::uint64_t words[5] = {};
        std::memcpy(words, data, width);
#pragma GCC unroll 8
        for (unsigned i = 0; i < 8; ++i) {
            const unsigned bit = i * width;
            std::uint64_t value = words[bit / 64] >> bit % 64;
            if (bit % 64 + width > 64) value |= words[bit / 64 + 1] << 1 << (63 - bit % 64);
            values[i] = static_cast<std::uint32_t>(value & mask);
        }
    }
}

using PackEights = void (*)(const std::uint32_t*, std::size_t, std::uint8_t*) noexcept;
using UnpackEights = void (*)(const std::uint8_t*, std::size_t, std::uint32_t*) noexcept;

template <unsigned... widths>
PackEights packer(unsigned width, std::integer_sequence<unsigned, widths...>) noexcept {
    static constexpr PackEights table[] = {pack_eights<widths>...};
    return table[width];
}

template <unsigned... widths>
UnpackEights unpacker(unsigned width, std::integer_sequence<unsigned, widths...>) noexcept {
    static constexpr UnpackEights table[] = {unpack_eights<widths>...};
    return table[width];
}

using Widths = std::make_integer_sequence<unsigned, 32>;

}  // namespace

void pack(const std::uint32_t* values, std::size_t count, unsigned width, std::uint8_t* out) noexcept {
    const PackEights eights = packer(width, Widths{});
    eights(values, count / 8, out);
    const std::size_t rest = count % 8;
    std::uint32_t last[8] = {};
    std::uint8_t bytes[32];
    for (std::size_t i = 0; i < rest; ++i) last[i] = values[count - rest + i];
    eights(last, 1, bytes);
    std::memcpy(out + count / 8 * width, bytes, packed_size(rest, width));
}

bool unpack(const std::uint8_t* data, std::size_t count, unsigned width, std::uint32_t* values) noexcept {
    const UnpackEights eights = unpacker(width, Widths{});
    eights(data, count / 8, values);
    const std::size_t rest = count % 8;
    std::uint32_t last[8];
    std::uint8_t bytes[32] = {};
    std::memcpy(bytes, data + count / 8 * width, packed_size(rest, width));
    eights(bytes, 1, last);
    for (std::size_t i = 0; i < rest; ++i) values[count - rest + i] = last[i];
    // The padding is the low bits of the fields that would follow.
    std::uint32_t padding = 0;
    for (std::size_t i = rest; i < 8; ++i) padding |= last[i];
    return padding == 0;
}

}  // namespace gradwire
