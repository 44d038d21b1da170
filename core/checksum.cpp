#include "checksum.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "crc32c.hpp"
#include "threads.hpp"
#include "values.hpp"

namespace gradwire {
namespace {

constexpr std::size_t part_bytes = std::size_t{1} << 20;
// What has just been copied is still in the cache when it is summed; and the checksum leaves no remainder of so much.
constexpr std::size_t piece_bytes = 3 * 12288;

// Products of reflected polynomials modulo that of CRC-32C; bit 31 is x^0.
std::uint32_t multiplied(std::uint32_t a, std::uint32_t b) noexcept {
    std::uint32_t product = 0;
    for (; b != 0; b <<= 1) {
        if (b >> 31) product ^= a;
        a = (a >> 1) ^ ((a & 1) ? 0x82F63B78u : 0u);
    }
    return product;
}

// Writes bytes begin … begin + size of a piece.
void write(const Piece& from, std::size_t begin, std::size_t size, std::uint8_t* out) noexcept {
    if (from.kind == Piece::Kind::bytes) {
        std::memcpy(out, static_cast<const std::uint8_t*>(from.data) + begin, size);
        return;
    }
    std::uint16_t halves[piece_bytes / 2];  // aligned, which numbers in a message are not
    const float* const x = static_cast<const float*>(from.data) + begin / 2;
    if (from.kind == Piece::Kind::float16)
        value_kernels().encode_float16(x, size / 2, from.exponent, halves);
    else
        value_kernels().encode_bfloat16(x, size / 2, halves);
    std::memcpy(out, halves, size);
}

struct Part {
    const Piece* piece;
    std::size_t begin, size;  // in the piece
    std::size_t offset;       // in the message
    std::uint32_t sum;
};

std::uint32_t write_and_sum(const Part& part, std::uint8_t* out) noexcept {
    std::uint32_t crc = 0;
    for (std::size_t begin = 0; begin < part.size; begin += piece_bytes) {
        const std::size_t bytes = std::min(piece_bytes, part.size - begin);
        write(*part.piece, part.begin + begin, bytes, out + begin);
        crc = crc32c(out + begin, bytes, crc);
    }
    return crc;
}

// Each piece cut into parts.
std::vector<Part> cut(const Piece* pieces, std::size_t count) {
    std::vector<Part> parts;
    std::size_t offset = 0;
    for (const Piece* piece = pieces; piece < pieces + count; offset += piece++->size)
        for (std::size_t begin = 0; begin < piece->size; begin += part_bytes)
            parts.push_back({piece, begin, std::min(part_bytes, piece->size - begin), offset + begin, 0});
    return parts;
}

// of(part) gives the checksum of each.
template <class Of>
std::uint32_t sum_of(std::vector<Part> parts, const Of& of) {
    std::size_t size = 0;
    for (const Part& part : parts) size += part.size;
    in_parallel(parts.size(), size / sizeof(float), [&](std::size_t i) { parts[i].sum = of(parts[i]); });
    std::uint32_t sum = 0;
    for (const Part& part : parts) sum = joined_crc32c(sum, part.sum, part.size);
    return sum;
}

}  // namespace

// What stands before zeros·8 further bits is multiplied by x^(8·zeros).
std::uint32_t joined_crc32c(std::uint32_t first, std::uint32_t second, std::uint64_t second_size) noexcept {
    std::uint32_t square = 0x00800000u;  // x^8, then x^16, x^32, …
    for (std::uint64_t bytes = second_size; bytes != 0; bytes >>= 1) {
        if (bytes & 1) first = multiplied(first, square);
        square = multiplied(square, square);
    }
    return first ^ second;
}

std::uint32_t checksum(const std::uint8_t* data, std::size_t size) {
    if (size <= part_bytes) return crc32c(data, size);
    const Piece whole{data, size};
    return sum_of(cut(&whole, 1), [data](const Part& part) { return crc32c(data + part.begin, part.size); });
}

std::uint32_t joined_checksum(const Piece* pieces, std::size_t count, std::uint8_t* out) {
    return sum_of(cut(pieces, count), [out](const Part& part) { return write_and_sum(part, out + part.offset); });
}

}  // namespace gradwire
