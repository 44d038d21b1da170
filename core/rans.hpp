// Interleaved rANS over tokens: the model (frequencies, lanes) and the coder itself. docs/wire-format.md, section 4.1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "bits.hpp"

namespace gradwire {

inline constexpr unsigned token_limit = 140;  // tokens are below
inline constexpr unsigned scale_log2 = 12;
inline constexpr std::uint32_t scale = 1u << scale_log2;  // the sum of the frequencies of a block
inline constexpr std::uint32_t lowest_state = 1u << 16;
inline constexpr unsigned most_lanes = 64;

struct Frequencies {
    std::array<std::uint16_t, token_limit> of{};
    unsigned top = 0;  // the largest token whose frequency is not 0
};

using TokenCounts = std::array<std::uint32_t, token_limit>;

// Tokens are below token_limit; m < 2^32.
TokenCounts count_tokens(const std::uint8_t* tokens, std::size_t m) noexcept;

// What the format pins for the encoder: frequencies from counts (not all zero), and lanes from both.
Frequencies normalise(const TokenCounts& counts) noexcept;
unsigned lanes_log2(const TokenCounts& counts, const Frequencies& frequencies) noexcept;

// Writes top and the frequencies; at most frequencies_bound bytes, write_slack included.
inline constexpr std::size_t frequencies_bound = 1 + (token_limit * (4 + scale_log2) + 7) / 8 + write_slack;
std::uint8_t* write_frequencies(const Frequencies& frequencies, std::uint8_t* out) noexcept;
Frequencies read_frequencies(ByteReader& reader);

// Encodes m ≥ 1 tokens, last to first, on a stack of words; the decoder reads the stack from its top down. Every token
// needs a frequency. The stack has room for m + stack_slack words; states, for one per lane. Returns the words' number.
// soon: 4·m bytes that whoever calls reads next, or null.
inline constexpr std::size_t stack_slack = 32;
std::size_t rans_encode(const std::uint8_t* tokens, std::size_t m, const Frequencies& frequencies, unsigned lanes,
                        std::uint32_t* states, std::uint16_t* stack, const void* soon = nullptr) noexcept;

// Decodes m ≥ 1 tokens from the states (4 bytes a lane) and words of a message; raises if they are not a valid end.
void rans_decode(std::uint8_t* tokens, std::size_t m, const Frequencies& frequencies, unsigned lanes,
                 const std::uint8_t* states, const std::uint8_t* words, std::size_t word_count);

}  // namespace gradwire
