// Which instruction set the kernels use. One decision, taken once, in dispatch.cpp.
#pragma once

namespace gradwire {

enum class Simd { portable = 0, avx2 = 1, avx512 = 2 };

// The level in force: the best that the processor has, or what GRADWIRE_SIMD=portable|avx2|avx512 lowers it to.
Simd simd() noexcept;

// Lowers (or restores) the level for this process; clipped to what the processor has. Returns the level in force.
Simd set_simd(Simd wanted) noexcept;

// The processor has SSE4.2's CRC-32C instruction.
bool has_crc_instruction() noexcept;

}  // namespace gradwire
