#include "indices.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "packing.hpp"

namespace gradwire {
namespace {

constexpr std::uint8_t entropy_mode = 1 << 5;
constexpr std::size_t chunk_length = 1024;  // numbers on their way through the first-level cache; a multiple of 8

// The Rice parameter of mode 0.
unsigned rice_width(std::size_t k, std::uint32_t n) noexcept {
    unsigned b = 0;
    while (std::uint64_t{k} << (16 + b) < 31536 * std::uint64_t{n}) ++b;
    return b;
}

// Gaps of indices[begin … begin + count): at most chunk_length.
void gaps_of(const std::uint32_t* indices, std::size_t begin, std::size_t count, std::uint32_t* gaps) noexcept {
    std::size_t j = 0;
    if (begin == 0) {
        gaps[0] = indices[0];
        j = 1;
    }
    for (; j < count; ++j) gaps[j] = indices[begin + j] - indices[begin + j - 1] - 1;
}

// Calls body(begin, gaps, count) for chunk after chunk.
template <class Body>
void for_chunks_of_gaps(const std::uint32_t* indices, std::size_t begin, std::size_t end, Body&& body) noexcept {
    std::uint32_t gaps[chunk_length];
    for (; begin < end; begin += chunk_length) {
        const std::size_t count = std::min(chunk_length, end - begin);
        gaps_of(indices, begin, count, gaps);
        body(begin, gaps, count);
    }
}

std::size_t rice_size(const std::uint32_t* indices, std::size_t k, unsigned b) noexcept {
    std::uint64_t bits = k;
    for_chunks_of_gaps(indices, 0, k, [&](std::size_t, const std::uint32_t* gaps, std::size_t count) {
        for (std::size_t j = 0; j < count; ++j) bits += gaps[j] >> b;
    });
    return 1 + packed_size(k, b) + static_cast<std::size_t>((bits + 7) / 8);
}

void put_one_rice(BitWriter& bits, std::uint32_t quotient) noexcept {
    for (; quotient >= 48; quotient -= 48) bits.put(0, 48);
    bits.put(std::uint64_t{1} << quotient, quotient + 1);
}

// Each quotient as so many zeros and a one.
void put_rice(BitWriter& bits, const std::uint32_t* quotients, std::size_t count) noexcept {
    std::size_t j = 0;
    // Four at a time, where they fit: that is nearly always, and shortens the chain from one store to the next.
    for (; j + 4 <= count; j += 4) {
        const std::uint32_t* q = quotients + j;
        if ((q[0] | q[1] | q[2] | q[3]) < 8) [[likely]] {
            const std::uint32_t second = q[0] + 1 + q[1], third = second + 1 + q[2], fourth = third + 1 + q[3];
            bits.put(std::uint64_t{1} << q[0] | std::uint64_t{1} << second | std::uint64_t{1} << third |
                         std::uint64_t{1} << fourth,
                     fourth + 1);
            continue;
        }
        for (unsigned i = 0; i < 4; ++i) put_one_rice(bits, q[i]);
    }
    for (; j < count; ++j) put_one_rice(bits, quotients[j]);
}

std::size_t write_rice(const std::uint32_t* indices, std::size_t k, unsigned b, std::uint8_t* out) noexcept {
    out[0] = static_cast<std::uint8_t>(b);
    BitWriter bits(out + 1 + packed_size(k, b));
    for_chunks_of_gaps(indices, 0, k, [&](std::size_t begin, std::uint32_t* gaps, std::size_t count) {
        pack(gaps, count, b, out + 1 + packed_size(begin, b));
        for (std::size_t j = 0; j < count; ++j) gaps[j] >>= b;
        put_rice(bits, gaps, count);
    });
    return static_cast<std::size_t>(bits.finish() - out);
}

// The section in mode 1, or 0 if it has no fewer than limit bytes.
std::size_t write_entropy_coded(const std::uint32_t* indices, std::size_t k, unsigned b, std::size_t limit,
                                const IndexScratch& scratch, std::uint8_t* out) noexcept {
    out[0] = static_cast<std::uint8_t>(b | entropy_mode);
    std::size_t size = 1 + packed_size(k, b);
    for (std::size_t begin = 0; begin < k; begin += block_length) {
        const std::size_t end = std::min(k, begin + block_length);
        TokenWriter quotients(scratch.tokens, scratch.extra);
        for_chunks_of_gaps(indices, begin, end, [&](std::size_t at, std::uint32_t* gaps, std::size_t count) {
            pack(gaps, count, b, out + 1 + packed_size(at, b));
            for (std::size_t j = 0; j < count; ++j) gaps[j] >>= b;
            quotients.put(gaps, count);
        });
        const std::size_t block_size = encode_block(quotients.finish(), scratch.stack, scratch.block);
        if (size + block_size >= limit) return 0;
        std::memcpy(out + size, scratch.block, block_size);
        size += block_size;
    }
    return size;
}

// What a byte of the stream of quotients holds: the zeros before each of its ones, how many ones, and the zeros behind.
struct RiceByte {
    std::uint8_t zeros[8];
    std::uint8_t ones;
    std::uint8_t tail;
};

constexpr std::array<RiceByte, 256> rice_bytes = [] {
    std::array<RiceByte, 256> table{};
    for (unsigned byte = 0; byte < 256; ++byte) {
        RiceByte& entry = table[byte];
        for (unsigned bit = 0; bit < 8; ++bit) {
            if (byte >> bit & 1) {
                entry.zeros[entry.ones++] = entry.tail;
                entry.tail = 0;
            } else {
                ++entry.tail;
            }
        }
    }
    return table;
}();

// k quotients of mode 0.
void read_rice(ByteReader& reader, std::size_t k, std::uint32_t* quotients) {
    const std::uint8_t* const data = reader.next();
    const std::size_t size = reader.left();
    std::uint64_t zeros = 0;  // since the last one
    std::uint64_t most = 0;
    std::size_t done = 0;
    std::size_t byte = 0;
    // Without a branch, eight quotients are written of which only the byte's own count.
    for (; byte < size && done + 8 <= k; ++byte) {
        const RiceByte& entry = rice_bytes[data[byte]];
        for (unsigned i = 0; i < 8; ++i) quotients[done + i] = entry.zeros[i];
        quotients[done] += static_cast<std::uint32_t>(zeros);
        most |= zeros;
        done += entry.ones;
        zeros = entry.tail + (entry.ones == 0 ? zeros : 0);
    }
    BitReader bits(data, reader.end());
    bits.skip(8 * std::uint64_t{byte});
    while (done < k) {
        const std::uint64_t word = bits.peek();
        const auto run = static_cast<unsigned>(std::countr_zero(word | std::uint64_t{1} << 56));
        zeros += run;
        if (run == 56) {
            bits.skip(56);
            if (bits.overrun()) throw MessageError("the message is cut short inside an indices section");
            continue;
        }
        bits.skip(run + 1);
        most |= zeros;
        quotients[done++] = static_cast<std::uint32_t>(zeros);
        zeros = 0;
    }
    if (most >> 32) throw MessageError("the message has an index that is not below n");
    reader.move_to(bits.finish());
}

}  // namespace

bool indices_are_valid(const std::uint32_t* indices, std::size_t k, std::uint32_t n) noexcept {
    std::uint32_t bad = 0;
    for (std::size_t j = 1; j < k; ++j) bad |= indices[j] <= indices[j - 1];
    return bad == 0 && (k == 0 || indices[k - 1] < n);
}

std::size_t indices_bound(std::size_t k, std::uint32_t n) noexcept {
    const unsigned b = rice_width(k, n);
    return 1 + packed_size(k, b) + (k + (n >> b) + 7) / 8 + write_slack;
}

std::size_t encode_indices(const std::uint32_t* indices, std::size_t k, std::uint32_t n, const IndexScratch& scratch,
                           std::uint8_t* out) noexcept {
    const unsigned b = rice_width(k, n);
    if (k >= 512) {
        const std::size_t size =
            write_entropy_coded(indices, k, b < 2 ? 0 : b - 2, rice_size(indices, k, b), scratch, out);
        if (size != 0) return size;
    }
    return write_rice(indices, k, b, out);
}

void decode_indices(ByteReader& reader, std::uint32_t n, std::size_t k, std::uint8_t* tokens, std::uint32_t* indices) {
    if (k == 0 || k > n) throw MessageError("the message names more indices than there are, or none");
    const unsigned head = reader.byte();
    if (head >> 6) throw MessageError("the message has an indices section of an unknown mode");
    const unsigned b = head & 31;
    const std::uint8_t* const low = reader.take(packed_size(k, b));
    if (head & entropy_mode) {
        for (std::size_t begin = 0; begin < k; begin += block_length)
            decode_numbers(read_block(reader, std::min(block_length, k - begin)), tokens, indices + begin);
    } else {
        read_rice(reader, k, indices);
    }

    // Every gap below 2^32 and their sum below n: then no index can wrap, and they ascend.
    std::uint64_t sum = 0;
    std::uint64_t above = 0;
    bool padded = true;
    std::uint32_t next = 0;  // one more than the last index
    for (std::size_t begin = 0; begin < k; begin += chunk_length) {
        const std::size_t count = std::min(chunk_length, k - begin);
        std::uint32_t rest[chunk_length];
        padded &= unpack(low + packed_size(begin, b), count, b, rest);
        std::uint32_t* const chunk = indices + begin;
        for (std::size_t j = 0; j < count; ++j) {
            const std::uint64_t gap = std::uint64_t{chunk[j]} << b;
            above |= gap >> 32;
            sum += gap + rest[j];
            chunk[j] = static_cast<std::uint32_t>(gap) + rest[j];
        }
        for (std::size_t j = 0; j < count; ++j) {
            chunk[j] += next;
            next = chunk[j] + 1;
        }
    }
    if (!padded) throw MessageError("the message has padding bits that are not zero");
    if (above != 0 || sum + k > n) throw MessageError("the message has an index that is not below n");
}

}  // namespace gradwire
