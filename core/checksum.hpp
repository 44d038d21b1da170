// CRC-32C of long inputs in parts, by as many threads as there are.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradwire {

// Of two inputs one behind the other, from the checksum of each and the length of the second.
std::uint32_t joined_crc32c(std::uint32_t first, std::uint32_t second, std::uint64_t second_size) noexcept;

// The checksum of all of data.
std::uint32_t checksum(const std::uint8_t* data, std::size_t size);

// Part of a message, `size` bytes there: bytes as they are, or floats that become numbers of 16 bits.
struct Piece {
    enum class Kind { bytes, float16, bfloat16 };

    const void* data;
    std::size_t size;
    Kind kind = Kind::bytes;
    int exponent = 0;  // of float16
};

// Writes the pieces to out, one behind the other, and gives the checksum of what is there then.
std::uint32_t joined_checksum(const Piece* pieces, std::size_t count, std::uint8_t* out);

}  // namespace gradwire
