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

// Chooses everything in the head but `sectioned`, as the format pins it for the encoder.
SphericalHead choose_head(const std::uint64_t* index, const float* gain, std::size_t m) noexcept;

// The norms of the blocks that are not zero, at most m; returns how many.
std::size_t write_norms(const float* gain, std::size_t m, const SphericalHead& head, std::uint32_t* norms) noexcept;

// Bits that so many norms take where they are not a section.
std::uint64_t gamma_bits(const std::uint32_t* norms, std::size_t count) noexcept;

// Writes the bit stream to out, where bits_bound bytes must be free; returns how many bits it has, its padding not counted.
std::size_t bits_bound(const float* gain, const BlockSplit& split) noexcept;
std::uint64_t write_bits(const float* x, const BlockSplit& split, const std::uint64_t* index, const float* gain,
                       const std::uint32_t* norms, const SphericalHead& head, std::uint8_t* out) noexcept;

// Reads it. On entry gain is 0 for the blocks of zeros and anything else for the others; norms are those of the section,
// if there is one. values gets the blocks that are sent as they are, and those of zeros; its other entries are left.
void read_bits(ByteReader& reader, const BlockSplit& split, const SphericalHead& head, const std::uint32_t* norms,
               std::uint64_t* index, float* gain, float* values);

}  // namespace gradwire
