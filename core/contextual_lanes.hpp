// What contextual.cpp and its instruction sets share: loops over whole groups of numbers, one number a lane.
#pragma once

#include "contextual.hpp"

namespace gradwire {

// contexts_of_words; a compiler makes vectors of it, of the instruction set that it is called in.
GRADWIRE_INLINE void shift_words(const std::uint32_t* words, std::size_t n, unsigned bits,
                                 std::uint8_t* contexts) noexcept {
    for (std::size_t i = 0; i < n; ++i) contexts[i] = static_cast<std::uint8_t>((words[i] >> 28) >> (4 - bits));
}
void contexts_of_words_avx512(const std::uint32_t* words, std::size_t n, unsigned bits, std::uint8_t* contexts) noexcept;
void contexts_of_words_avx2(const std::uint32_t* words, std::size_t n, unsigned bits, std::uint8_t* contexts) noexcept;

// The symbols of the first pieces of symbol_piece plain tokens, as many as have a frequency throughout; returns how many
// tokens.
inline constexpr std::size_t symbol_piece = 64;
using PlainSymbols = std::size_t (*)(const std::uint8_t* tokens, const std::uint8_t* contexts, std::size_t m,
                                     const ContextEncodeTable& table, std::uint16_t* symbols);
std::size_t plain_symbols_avx512(const std::uint8_t* tokens, const std::uint8_t* contexts, std::size_t m,
                                 const ContextEncodeTable& table, std::uint16_t* symbols);
std::size_t plain_symbols_avx2(const std::uint8_t* tokens, const std::uint8_t* contexts, std::size_t m,
                               const ContextEncodeTable& table, std::uint16_t* symbols);

// As EncodeGroups. lanes is 16, 32 or 64.
using EncodeContextGroups = std::uint16_t* (*)(const std::uint16_t* symbols, std::size_t groups,
                                               const ContextEncodeTable& table, std::uint32_t* states,
                                               std::uint16_t* stack);
EncodeContextGroups encode_context_groups_avx512(unsigned lanes) noexcept;
EncodeContextGroups encode_context_groups_avx2(unsigned lanes) noexcept;

// As DecodeGroups, but tokens come as 32 bits each, and all is what they come to when they are or'ed.
using DecodeContextGroups = std::size_t (*)(std::uint32_t* tokens, const std::uint8_t* contexts, std::size_t groups,
                                            const ContextDecodeTable& table, std::uint32_t* states,
                                            const std::uint8_t*& words, const std::uint8_t* last, std::uint32_t& all);
DecodeContextGroups decode_context_groups_avx512(unsigned lanes) noexcept;
DecodeContextGroups decode_context_groups_avx2(unsigned lanes) noexcept;

}  // namespace gradwire
