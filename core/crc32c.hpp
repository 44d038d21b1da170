// CRC-32C (Castagnoli): reflected polynomial 0x82F63B78, initial value and final xor 0xFFFFFFFF.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gradwire {

// `before` is the checksum of what comes before data, so that a long input can come in pieces.
std::uint32_t crc32c(const std::uint8_t* data, std::size_t size, std::uint32_t before = 0) noexcept;

// The two implementations. They continue a register (no initial value, no final xor).
std::uint32_t crc32c_portable(std::uint32_t crc, const std::uint8_t* data, std::size_t size) noexcept;
std::uint32_t crc32c_sse42(std::uint32_t crc, const std::uint8_t* data, std::size_t size) noexcept;

// A linear map of the register as four tables, one for each of its bytes.
using CrcTables = std::array<std::array<std::uint32_t, 256>, 4>;

// Register → register after `zeros` further zero bytes: multiplication by x^(8·zeros) modulo the polynomial.
// This is what joins the checksums of streams that were computed side by side.
constexpr CrcTables crc_shift_tables(std::size_t zeros) {
    // Reflected polynomials: bit 31 is x^0. multiply by repeated doubling of a.
    constexpr auto multiply = [](std::uint32_t a, std::uint32_t b) {
        std::uint32_t product = 0;
        for (int i = 31; i >= 0; --i) {
            if ((b >> i) & 1) product ^= a;
            a = (a >> 1) ^ ((a & 1) ? 0x82F63B78u : 0u);
        }
        return product;
    };
    std::uint32_t shift = 0x80000000u;   // x^0
    std::uint32_t square = 0x00800000u;  // x^8, then x^16, x^32, …
    for (std::size_t bits = zeros; bits != 0; bits >>= 1) {
        if (bits & 1) shift = multiply(shift, square);
        square = multiply(square, square);
    }
    CrcTables tables{};
    for (int byte = 0; byte < 4; ++byte) {
        for (int bit = 0; bit < 8; ++bit)
            tables[byte][1u << bit] = multiply(shift, 1u << (8 * byte + bit));
        for (std::size_t v = 1; v < 256; ++v) {
            const std::size_t low = v & (~v + 1);
            tables[byte][v] = tables[byte][low] ^ tables[byte][v ^ low];
        }
    }
    return tables;
}

}  // namespace gradwire
