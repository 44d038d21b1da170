// The bits of Spherical Compression (docs/wire-format.md, 7.12): norms, points, and blocks sent as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bits.hpp"
#include "spherical.hpp"
#include "spherical_found.hpp"

namespace gradwire {

struct SphericalHead {
    unsigned r = 0;          // Rice parameter of the points, 0 … 31
    bool sectioned = false;  // the norms are an integers section
    bool zeros = false;      // there are blocks of zeros, which an integers section tells
    bool adaptive = false;   // exponents are predicted from those before
    std::uint8_t base = 1;   // the exponent predicted at first
};

SphericalHead read_head(ByteReader& reader);
std::uint8_t* write_head(const SphericalHead& head, std::uint8_t* out) noexcept;

inline constexpr std::uint32_t norm_limit = 2048;

// From so many blocks on a section of norms is tried.
inline constexpr std::size_t section_least = 256;

struct ChosenHead {
    SphericalHead head;
    std::size_t there;        // blocks that are not of zeros
    std::size_t bits_bound;   // bytes that must be free for write_bits
    std::uint64_t norm_bits;  // what the norms take where they are not a section
};

// Chooses everything in the head but `sectioned`, as the format pins it for the encoder.
ChosenHead choose_head(const FoundBlocks& found);

// Predicts the exponent of the next gain.
class Prediction {
public:
    explicit Prediction(const SphericalHead& head) noexcept : state_(16 * head.base), adaptive_(head.adaptive) {}
    int exponent() const noexcept { return state_ >> 4; }
    void see(std::uint32_t pattern) noexcept {
        if (adaptive_) state_ += (static_cast<int>(pattern >> 19) - state_) >> 3;
    }

private:
    int state_;  // sixteenths
    bool adaptive_;
};

// The norms of the blocks that are not of zeros, in order.
class Norms {
public:
    Norms(const FoundBlocks& found, const SphericalHead& head) : gains_(found), prediction_(head) {}
    // The next `most` of them, or all that are left; returns how many.
    std::size_t read(std::uint32_t* norms, std::size_t most) noexcept;

private:
    GainReader gains_;
    Prediction prediction_;
};

// Writes the bit stream of x; returns how many bits it has, its padding not counted.
std::uint64_t write_bits(const float* x, const FoundBlocks& found, const SphericalHead& head, std::uint8_t* out);

// Reads it, some blocks at a time. norms, each below norm_limit, are those of the section, if there is one.
class BlockReader {
public:
    BlockReader(ByteReader& reader, const BlockSplit& split, const SphericalHead& head, const std::uint16_t* norms) noexcept
        : reader_(reader), bits_(reader.next(), reader.end()), split_(split), head_(head), prediction_(head), norms_(norms) {}

    // The next `count` blocks. On entry gain is 0 for those of zeros and anything else for the others; the entries of those
    // that are sent as they are go to the end of raw.
    void read(std::size_t count, std::uint64_t* index, float* gain, std::vector<float>& raw);
    void finish() { reader_.move_to(bits_.finish()); }

private:
    std::uint32_t norm();

    ByteReader& reader_;
    BitReader bits_;
    const BlockSplit split_;
    const SphericalHead head_;
    Prediction prediction_;
    const std::uint16_t* norms_;
    std::size_t next_ = 0;
};

}  // namespace gradwire
