// The loops of the portable and the AVX2 level: the same text, compiled with and without bit-manipulation instructions.
// Included inside an anonymous namespace.

std::size_t candidates(const std::uint32_t* words, std::size_t m, std::uint32_t n, std::uint32_t refused,
                       std::uint32_t* out) noexcept {
    std::size_t count = 0;
    for (std::size_t i = 0; i < m; ++i) {
        const std::uint64_t product = std::uint64_t{words[i]} * n;
        out[count] = static_cast<std::uint32_t>(product >> 32);
        count += static_cast<std::uint32_t>(product) >= refused;
    }
    return count;
}

void positions(const std::uint64_t* bitmap, std::size_t count, std::uint64_t flip, std::uint32_t* out) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        std::uint64_t ones = bitmap[i] ^ flip;
        const auto first = static_cast<std::uint32_t>(64 * i);
        std::uint32_t* const end = out + __builtin_popcountll(ones);
        // Eight at a time, too many rather than too few: a loop with an exact end would be mispredicted for every word.
        while (out < end) {
            for (int j = 0; j < 8; ++j) {
                // The bit 63 is there only so that the count of zeros of an exhausted word is defined.
                out[j] = first + static_cast<std::uint32_t>(__builtin_ctzll(ones | std::uint64_t{1} << 63));
                ones &= ones - 1;
            }
            out += 8;
        }
        out = end;
    }
}
