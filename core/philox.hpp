// Philox 4×32 with 10 rounds (Salmon et al., SC 2011), the counter-based generator of wire format section 3.
// A generator is a pair (seed, stream); its words are numbered by t below 2^64 and can be had in any order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gradwire {

namespace philox {
inline constexpr std::uint32_t multiplier0 = 0xD2511F53u, multiplier1 = 0xCD9E8D57u;
inline constexpr std::uint32_t weyl0 = 0x9E3779B9u, weyl1 = 0xBB67AE85u;
inline constexpr int rounds = 10;
}  // namespace philox

// One block: four words from a counter and a key.
std::array<std::uint32_t, 4> philox_block(std::array<std::uint32_t, 4> counter,
                                          std::array<std::uint32_t, 2> key) noexcept;

// Words start … start + count − 1; start + count must not pass 2^64.
void philox_words(std::uint64_t seed, std::uint64_t stream, std::uint64_t start, std::size_t count,
                  std::uint32_t* out) noexcept;

// The same words as numbers in [0, 1): (word >> 8)·2^−24.
void philox_uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t start, std::size_t count,
                    float* out) noexcept;

// The seed of child j (its stream is 0).
std::uint64_t philox_child_seed(std::uint64_t seed, std::uint64_t stream, std::uint32_t j) noexcept;

// 4·blocks words from block number `first` on.
using PhiloxBlocks = void (*)(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t blocks,
                              std::uint32_t* out) noexcept;
void philox_blocks_portable(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t blocks,
                            std::uint32_t* out) noexcept;
void philox_blocks_avx2(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t blocks,
                        std::uint32_t* out) noexcept;
void philox_blocks_avx512(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t blocks,
                          std::uint32_t* out) noexcept;

}  // namespace gradwire
