#include "philox.hpp"

#include <algorithm>
#include <cstring>

#include "dispatch.hpp"

namespace gradwire {
namespace {

PhiloxBlocks blocks_in_force() noexcept {
#if defined(__x86_64__)
    switch (simd()) {
        case Simd::avx512: return philox_blocks_avx512;
        case Simd::avx2: return philox_blocks_avx2;
        case Simd::portable: break;
    }
#endif
    return philox_blocks_portable;
}

}  // namespace

std::array<std::uint32_t, 4> philox_block(std::array<std::uint32_t, 4> counter,
                                          std::array<std::uint32_t, 2> key) noexcept {
    auto [c0, c1, c2, c3] = counter;
    auto [k0, k1] = key;
    for (int round = 0; round < philox::rounds; ++round) {
        const std::uint64_t p0 = std::uint64_t{philox::multiplier0} * c0;
        const std::uint64_t p1 = std::uint64_t{philox::multiplier1} * c2;
        c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
        c1 = static_cast<std::uint32_t>(p1);
        c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
        c3 = static_cast<std::uint32_t>(p0);
        k0 += philox::weyl0;  // the last addition is not used
        k1 += philox::weyl1;
    }
    return {c0, c1, c2, c3};
}

void philox_blocks_portable(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t blocks,
                            std::uint32_t* out) noexcept {
    const std::array<std::uint32_t, 2> key{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
    for (std::size_t i = 0; i < blocks; ++i) {
        const std::uint64_t b = first + i;
        const auto words = philox_block({static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32),
                                         static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                                        key);
        std::memcpy(out + 4 * i, words.data(), sizeof(words));
    }
}

void philox_words(std::uint64_t seed, std::uint64_t stream, std::uint64_t start, std::size_t count,
                  std::uint32_t* out) noexcept {
    std::uint64_t block = start >> 2;
    std::uint32_t words[4];
    if (const std::size_t skipped = start & 3; skipped != 0 && count > 0) {
        const std::size_t taken = std::min<std::size_t>(4 - skipped, count);
        philox_blocks_portable(seed, stream, block++, 1, words);
        std::memcpy(out, words + skipped, taken * sizeof(*words));
        out += taken;
        count -= taken;
    }
    const std::size_t whole = count / 4, rest = count % 4;
    blocks_in_force()(seed, stream, block, whole, out);
    if (rest > 0) {
        philox_blocks_portable(seed, stream, block + whole, 1, words);
        std::memcpy(out + 4 * whole, words, rest * sizeof(*words));
    }
}

void philox_uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t start, std::size_t count,
                    float* out) noexcept {
    constexpr std::size_t chunk = 1024;
    std::uint32_t words[chunk];
    for (std::size_t done = 0; done < count; done += chunk) {
        const std::size_t m = std::min(chunk, count - done);
        philox_words(seed, stream, start + done, m, words);
        // 24 bits fit a float: exact. Via int, because that conversion is one instruction everywhere.
        for (std::size_t i = 0; i < m; ++i)
            out[done + i] = static_cast<float>(static_cast<int>(words[i] >> 8)) * 0x1p-24f;
    }
}

std::uint64_t philox_child_seed(std::uint64_t seed, std::uint64_t stream, std::uint32_t j) noexcept {
    const auto words = philox_block(
        {j, 0xFFFFFFFFu, static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
        {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    return std::uint64_t{words[1]} << 32 | words[0];
}

}  // namespace gradwire
