#include "packing.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "bits.hpp"

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

// Reads up to read_slack bytes behind the fields.
constexpr std::size_t read_slack = 8;

template <unsigned width>
void unpack_eights(const std::uint8_t* data, std::size_t eights, std::uint32_t* values) noexcept {
    constexpr std::uint64_t mask = (1u << width) - 1;
    for (; eights > 0; --eights, values += 8, data += width) {
#pragma GCC unroll 8
        for (unsigned i = 0; i < 8; ++i) {
            // Eight narrow fields come in one load; of the wide, each has its own.
            const unsigned byte = width <= 8 ? 0 : i * width / 8;
            const std::uint64_t word = load<std::uint64_t>(data + byte);
            values[i] = static_cast<std::uint32_t>(word >> (i * width - 8 * byte) & mask);
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
    if (width == 0) {
        std::fill(values, values + count, 0u);
        return true;
    }
    const UnpackEights unpack_some = unpacker(width, Widths{});
    const std::size_t size = packed_size(count, width);
    const std::size_t safe = size < read_slack ? 0 : (size - read_slack) / width;
    const std::size_t eights = std::min(count / 8, safe);
    unpack_some(data, eights, values);
    data += eights * width;
    values += 8 * eights;

    // The last ones, where zeros follow them. The padding is the low bits of the fields that would come next.
    for (std::size_t left = count - 8 * eights; left > 0;) {
        std::uint8_t bytes[32 + read_slack] = {};
        std::uint32_t last[8];
        const std::size_t some = std::min<std::size_t>(left, 8);
        const std::size_t some_size = packed_size(some, width);
        std::memcpy(bytes, data, some_size);
        unpack_some(bytes, 1, last);
        std::copy(last, last + some, values);
        for (std::size_t i = some; i < 8; ++i)
            if (last[i] != 0) return false;
        data += some_size;
        values += some;
        left -= some;
    }
    return true;
}

}  // namespace gradwire
