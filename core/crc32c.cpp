#include "crc32c.hpp"

#include <bit>
#include <cstring>

#include "dispatch.hpp"

namespace gradwire {
namespace {

// Slicing by eight: tables[j][v] is the register after byte v and j zero bytes.
constexpr std::array<std::array<std::uint32_t, 256>, 8> slicing_tables() {
    std::array<std::array<std::uint32_t, 256>, 8> tables{};
    for (std::uint32_t v = 0; v < 256; ++v) {
        std::uint32_t crc = v;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0u);
        tables[0][v] = crc;
    }
    for (int j = 1; j < 8; ++j)
        for (std::size_t v = 0; v < 256; ++v) {
            const std::uint32_t before = tables[j - 1][v];
            tables[j][v] = (before >> 8) ^ tables[0][before & 0xFF];
        }
    return tables;
}

constexpr auto slicing = slicing_tables();

std::uint32_t load_little_endian(const std::uint8_t* p) noexcept {
    return std::uint32_t{p[0]} | std::uint32_t{p[1]} << 8 | std::uint32_t{p[2]} << 16 | std::uint32_t{p[3]} << 24;
}

}  // namespace

std::uint32_t crc32c_portable(std::uint32_t crc, const std::uint8_t* data, std::size_t size) noexcept {
    for (; size >= 8; data += 8, size -= 8) {
        const std::uint32_t a = crc ^ load_little_endian(data);
        const std::uint32_t b = load_little_endian(data + 4);
        crc = slicing[7][a & 0xFF] ^ slicing[6][(a >> 8) & 0xFF] ^ slicing[5][(a >> 16) & 0xFF] ^ slicing[4][a >> 24] ^
              slicing[3][b & 0xFF] ^ slicing[2][(b >> 8) & 0xFF] ^ slicing[1][(b >> 16) & 0xFF] ^ slicing[0][b >> 24];
    }
    for (; size > 0; ++data, --size) crc = (crc >> 8) ^ slicing[0][(crc ^ *data) & 0xFF];
    return crc;
}

std::uint32_t crc32c(const std::uint8_t* data, std::size_t size, std::uint32_t before) noexcept {
#if defined(__x86_64__)
    if (has_crc_instruction()) return ~crc32c_sse42(~before, data, size);
#endif
    return ~crc32c_portable(~before, data, size);
}

}  // namespace gradwire
