// Fields of one width, 0 … 31 bits, back to back.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradwire {

constexpr std::size_t packed_size(std::size_t count, unsigned width) noexcept {
    return (count * std::size_t{width} + 7) / 8;
}

// The low width bits of each value, in packed_size(count, width) bytes; nothing is written beyond them.
void pack(const std::uint32_t* values, std::size_t count, unsigned width, std::uint8_t* out) noexcept;

// The inverse. Returns whether the padding is zero.
bool unpack(const std::uint8_t* data, std::size_t count, unsigned width, std::uint32_t* values) noexcept;

}  // namespace gradwire
