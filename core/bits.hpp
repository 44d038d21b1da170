// Bytes, varints and bit streams of docs/wire-format.md, section 1, on buffers that the caller owns.
//
// Files that are compiled for one instruction set include this too: everything here is inlined always, so that no copy
// with instructions that the processor lacks can be what the linker picks for the rest of the program.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "message_error.hpp"

namespace gradwire {

static_assert(std::endian::native == std::endian::little, "loads and stores take the wire's byte order for the machine's");

#define GRADWIRE_INLINE [[gnu::always_inline]] inline

template <class T>
GRADWIRE_INLINE T load(const void* p) noexcept {
    T value;
    std::memcpy(&value, p, sizeof value);
    return value;
}

template <class T>
GRADWIRE_INLINE void store(void* p, T value) noexcept {
    std::memcpy(p, &value, sizeof value);
}

// A writer stores whole words: a buffer for bits needs so many bytes more than the stream has.
inline constexpr std::size_t write_slack = 8;

class BitWriter {
public:
    GRADWIRE_INLINE explicit BitWriter(std::uint8_t* out) noexcept : next_(out) {}

    // value < 2^width, width ≤ 56.
    GRADWIRE_INLINE void put(std::uint64_t value, unsigned width) noexcept {
        held_ |= value << fill_;
        fill_ += width;
        store(next_, held_);
        next_ += fill_ >> 3;
        held_ >>= fill_ & ~7u;
        fill_ &= 7;
    }

    // Bits that the stream has so far; it began at `begin`.
    GRADWIRE_INLINE std::uint64_t count(const std::uint8_t* begin) const noexcept {
        return 8 * static_cast<std::uint64_t>(next_ - begin) + fill_;
    }

    // Pads with zeros to a byte; the end of the stream.
    GRADWIRE_INLINE std::uint8_t* finish() noexcept { return next_ + (fill_ != 0); }

private:
    std::uint8_t* next_;
    std::uint64_t held_ = 0;  // the bits of a byte not yet full
    unsigned fill_ = 0;
};

// Reads zeros beyond the end of its bytes, so that loops need no check per field; finish() is the check.
class BitReader {
public:
    GRADWIRE_INLINE BitReader(const std::uint8_t* data, const std::uint8_t* end) noexcept
        : data_(data), size_(static_cast<std::size_t>(end - data)) {}

    // The next 57 bits or more.
    GRADWIRE_INLINE std::uint64_t peek() const noexcept {
        const std::size_t byte = static_cast<std::size_t>(bit_ >> 3);
        if (byte + 8 <= size_) [[likely]]
            return load<std::uint64_t>(data_ + byte) >> (bit_ & 7);
        std::uint64_t word = 0;
        for (std::size_t i = byte; i < size_; ++i) word |= std::uint64_t{data_[i]} << (8 * (i - byte));
        return word >> (bit_ & 7);
    }

    GRADWIRE_INLINE void skip(std::uint64_t bits) noexcept { bit_ += bits; }

    // width ≤ 56.
    GRADWIRE_INLINE std::uint64_t get(unsigned width) noexcept {
        const std::uint64_t value = peek() & ((std::uint64_t{1} << width) - 1);
        bit_ += width;
        return value;
    }

    GRADWIRE_INLINE std::uint64_t position() const noexcept { return bit_; }
    GRADWIRE_INLINE bool overrun() const noexcept { return bit_ > 8 * std::uint64_t{size_}; }

    // The byte behind the stream; raises if the stream ran past its bytes or its padding is not zero.
    GRADWIRE_INLINE const std::uint8_t* finish() const {
        if (overrun()) throw MessageError("the message is cut short inside a bit stream");
        const unsigned used = bit_ & 7;
        const std::uint8_t* last = data_ + (bit_ >> 3);
        if (used == 0) return last;
        if (*last >> used) throw MessageError("the message has padding bits that are not zero");
        return last + 1;
    }

private:
    const std::uint8_t* data_;
    std::size_t size_;
    std::uint64_t bit_ = 0;
};

class ByteReader {
public:
    GRADWIRE_INLINE ByteReader(const std::uint8_t* data, std::size_t size) noexcept : next_(data), end_(data + size) {}

    // The position of the next count bytes, which it passes.
    GRADWIRE_INLINE const std::uint8_t* take(std::uint64_t count) {
        if (count > left()) throw MessageError("the message is cut short inside an integers or indices section");
        const std::uint8_t* at = next_;
        next_ += count;
        return at;
    }

    GRADWIRE_INLINE std::uint8_t byte() { return *take(1); }

    GRADWIRE_INLINE std::uint32_t varint() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 35; shift += 7) {
            const std::uint8_t group = byte();
            value |= std::uint64_t{group & 0x7Fu} << shift;
            if (group < 0x80) {
                if ((group == 0 && shift > 0) || value >> 32)
                    throw MessageError("the message has a varint that is not minimal or reaches 2^32");
                return static_cast<std::uint32_t>(value);
            }
        }
        throw MessageError("the message has a varint of more than five bytes");
    }

    GRADWIRE_INLINE std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - next_); }
    GRADWIRE_INLINE const std::uint8_t* next() const noexcept { return next_; }
    GRADWIRE_INLINE const std::uint8_t* end() const noexcept { return end_; }
    GRADWIRE_INLINE void move_to(const std::uint8_t* p) noexcept { next_ = p; }

private:
    const std::uint8_t* next_;
    const std::uint8_t* end_;
};

GRADWIRE_INLINE std::uint8_t* put_varint(std::uint8_t* out, std::uint32_t value) noexcept {
    for (; value >= 0x80; value >>= 7) *out++ = static_cast<std::uint8_t>(value | 0x80);
    *out++ = static_cast<std::uint8_t>(value);
    return out;
}

}  // namespace gradwire
