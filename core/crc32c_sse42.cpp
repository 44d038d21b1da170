// The CRC-32C instruction takes 8 bytes a cycle but answers after three: three streams side by side keep it busy.
#include <nmmintrin.h>

#include <cstring>

#include "crc32c.hpp"

namespace gradwire {
namespace {

constexpr std::size_t long_stream = 4096;
constexpr std::size_t short_stream = 256;
constexpr CrcTables past_long = crc_shift_tables(long_stream);
constexpr CrcTables past_short = crc_shift_tables(short_stream);

inline std::uint64_t load(const std::uint8_t* p) noexcept {
    std::uint64_t v;
    std::memcpy(&v, p, 8);
    return v;
}

inline std::uint32_t shifted(const CrcTables& t, std::uint32_t crc) noexcept {
    return t[0][crc & 0xFF] ^ t[1][(crc >> 8) & 0xFF] ^ t[2][(crc >> 16) & 0xFF] ^ t[3][crc >> 24];
}

// Three neighbouring streams of `stream` bytes, while there are as many bytes.
template <std::size_t stream>
inline std::uint32_t three_streams(std::uint32_t crc, const CrcTables& past, const std::uint8_t*& data,
                                   std::size_t& size) noexcept {
    for (; size >= 3 * stream; data += 3 * stream, size -= 3 * stream) {
        std::uint64_t a = crc, b = 0, c = 0;
        for (std::size_t line = 0; line < stream; line += 64) {
            // Three places at once are more than the processor's own prefetching follows well.
            if constexpr (stream == long_stream)
                for (std::size_t s = 3; s < 6; ++s) __builtin_prefetch(data + s * stream + line);
#pragma GCC unroll 8
            for (std::size_t i = line; i < line + 64; i += 8) {
                a = _mm_crc32_u64(a, load(data + i));
                b = _mm_crc32_u64(b, load(data + stream + i));
                c = _mm_crc32_u64(c, load(data + 2 * stream + i));
            }
        }
        const std::uint32_t ab = shifted(past, static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(b);
        crc = shifted(past, ab) ^ static_cast<std::uint32_t>(c);
    }
    return crc;
}

}  // namespace

std::uint32_t crc32c_sse42(std::uint32_t crc, const std::uint8_t* data, std::size_t size) noexcept {
    crc = three_streams<long_stream>(crc, past_long, data, size);
    crc = three_streams<short_stream>(crc, past_short, data, size);
    std::uint64_t wide = crc;
    for (; size >= 8; data += 8, size -= 8) wide = _mm_crc32_u64(wide, load(data));
    crc = static_cast<std::uint32_t>(wide);
    for (; size > 0; ++data, --size) crc = _mm_crc32_u8(crc, *data);
    return crc;
}

}  // namespace gradwire
