// The bits of Spherical Compression (docs/wire-format.md, 7.12): norms, points, and blocks sent as they are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bits.hpp"
#include "spherical.hpp"

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

// From so many blocks on a section of norms is tried.
inline constexpr std::size_t section_least = 256;

// Numbers of points, in 32 bits where none needs more: there are as many as blocks.
class PointNumbers {
public:
    explicit PointNumbers(const std::uint32_t* narrow) noexcept : narrow_(narrow) {}
    explicit PointNumbers(const std::uint64_t* wide) noexcept : wide_(wide) {}
    std::uint64_t operator[](std::size_t b) const noexcept { return wide_ != nullptr ? wide_[b] : narrow_[b]; }

private:
    const std::uint32_t* narrow_ = nullptr;
    const std::uint64_t* wide_ = nullptr;
};

struct ChosenHead {
    SphericalHead head;
    std::size_t there;        // blocks that are not of zeros
    std::uint64_t norm_bits;  // what their norms take where they are not a section
};

// Chooses everything in the head but `sectioned`, as the format pins it for the encoder.
ChosenHead choose_head(PointNumbers index, const float* gain, std::size_t m) noexcept;

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
    Norms(const float* gain, std::size_t m, const SphericalHead& head) noexcept : gain_(gain), end_(gain + m), prediction_(head) {}
    // The next `most` of them, or all that are left; returns how many.
    std::size_t read(std::uint32_t* norms, std::size_t most) noexcept;

private:
    const float* gain_;
    const float* const end_;
    Prediction prediction_;
};

// Writes the bit stream to out, where bits_bound bytes must be free; returns how many bits it has, its padding not counted.
std::size_t bits_bound(const float* gain, const BlockSplit& split) noexcept;
std::uint64_t write_bits(const float* x, const BlockSplit& split, PointNumbers index, const float* gain,
                         const SphericalHead& head, std::uint8_t* out) noexcept;

// Reads it. On entry gain is 0 for the blocks of zeros and anything else for the others; norms are those of the section,
// if there is one. values gets the blocks that are sent as they are, and those of zeros; its other entries are left.
void read_bits(ByteReader& reader, const BlockSplit& split, const SphericalHead& head, const std::uint32_t* norms,
               std::uint64_t* index, float* gain, float* values);

}  // namespace gradwire
