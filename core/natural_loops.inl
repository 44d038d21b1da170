// Included by natural.cpp, natural_avx2.cpp and natural_avx512.cpp inside a namespace of their own.

void round(const float* x, std::size_t n, int lowest, const std::uint32_t* words, std::uint32_t* codes) {
    const float low = std::ldexp(1.0f, lowest);
    // Nothing but 0 lies below 2^-149, so its reciprocal, which is no binary32, is not needed.
    const float inverse = std::ldexp(1.0f, lowest < -126 ? 126 : -lowest);
    const auto lowest_code = static_cast<std::uint32_t>(lowest + natural_bias);
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[i]);
        const float magnitude = std::bit_cast<float>(bits & 0x7FFFFFFFu);
        const float u = static_cast<float>(static_cast<std::int32_t>(words[i] >> 8)) * 0x1p-24f;
        // A denormal is scaled by 2^24, exactly, so that its mantissa has 23 bits as well.
        const std::uint32_t denormal = magnitude < 0x1p-126f ? 1u : 0u;
        const float scaled = denormal ? magnitude * 0x1p24f : magnitude;
        // 23 random bits carry into the exponent with the probability that the mantissa asks for.
        const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(scaled) + (words[i] >> 9)) >> 23;
        const std::uint32_t around = exponent + (natural_bias - 127) - 24 * denormal;
        const std::uint32_t below = u < magnitude * inverse ? lowest_code : 0u;
        const std::uint32_t code = magnitude < low ? below : around;
        codes[i] = code == 0 ? 0u : 2 * code + (bits >> 31);
    }
}

std::uint32_t levels(std::uint32_t* __restrict codes, std::size_t n, std::uint32_t largest,
                     std::uint8_t* __restrict tokens) {
    const std::uint32_t above = 2 * largest + 2;
    std::uint32_t all = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t level = codes[i] == 0 ? 0u : above - codes[i];
        codes[i] = level;
        all |= level;
    }
    for (std::size_t i = 0; i < n; ++i) tokens[i] = static_cast<std::uint8_t>(codes[i]);
    return all;
}

constexpr NaturalKernels table{round, levels};
