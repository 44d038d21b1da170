// Included by signs.cpp, signs_avx2.cpp and signs_avx512.cpp inside a namespace of their own, after pack_group and
// add_group: the same for `group` entries, a multiple of 8.

void pack(const float* x, std::size_t n, std::uint8_t* bits) {
    std::size_t i = 0;
    for (; i + group <= n; i += group) pack_group(x + i, bits + i / 8);
    for (; i < n; i += 8) {
        unsigned byte = 0;
        for (std::size_t j = 0; j < 8 && i + j < n; ++j) byte |= static_cast<unsigned>(x[i + j] < 0.0f) << j;
        bits[i / 8] = static_cast<std::uint8_t>(byte);
    }
}

void add(float* out, std::size_t n, const std::uint8_t* bits, float addend) {
    std::size_t i = 0;
    for (; i + group <= n; i += group) add_group(out + i, bits + i / 8, addend);
    for (; i < n; ++i) out[i] += (bits[i / 8] >> (i % 8) & 1) != 0 ? -addend : addend;
}

constexpr SignKernels table{pack, add};
