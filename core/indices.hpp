// The indices section of docs/wire-format.md, 4.2: ascending indices as gaps, each cut into low bits and a quotient.
#pragma once

#include <cstddef>
#include <cstdint>

#include "integers.hpp"

namespace gradwire {

// What encode_indices may ask of its caller: strictly ascending, all below n.
bool indices_are_valid(const std::uint32_t* indices, std::size_t k, std::uint32_t n) noexcept;

// Buffers for the quotients of one block; for k indices they hold block = min(k, block_length) numbers.
struct IndexScratch {
    std::uint8_t* tokens;  // block
    std::uint8_t* extra;   // extra_bound(block)
    std::uint16_t* stack;  // block + stack_slack
    std::uint8_t* block;   // block_bound(block, 29·block)
};

// Writes the section of k ≥ 1 valid indices to out, where indices_bound(k, n) bytes must be free; returns its size.
std::size_t indices_bound(std::size_t k, std::uint32_t n) noexcept;
std::size_t encode_indices(const std::uint32_t* indices, std::size_t k, std::uint32_t n, const IndexScratch& scratch,
                           std::uint8_t* out) noexcept;

// Reads k indices below n; tokens is scratch for min(k, block_length). Raises on anything but strictly ascending
// indices below n; then what indices holds is undefined.
void decode_indices(ByteReader& reader, std::uint32_t n, std::size_t k, std::uint8_t* tokens, std::uint32_t* indices);

}  // namespace gradwire
