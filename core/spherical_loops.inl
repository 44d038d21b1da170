// Included by spherical.cpp, spherical_avx2.cpp and spherical_avx512.cpp inside a namespace of their own, with LANES
// floats to a register. The compiler turns the same loops into each instruction set; lanes never mix, so that the
// results are the same. What compilers make no single instruction of is told beforehand:
//   root(float*)               the square roots of a register of floats
//   above(Pattern, b)          whether any of a register of integers is above b
constexpr std::size_t tile = spherical::tile;
using Vector = float __attribute__((vector_size(4 * LANES)));

// Block `base[lane] + offset` of the generator (seed, stream 0), its four words in four rows.
inline void philox_rows(std::uint64_t seed, const std::uint64_t* base, std::uint64_t offset, std::size_t lanes,
                        std::uint32_t (*words)[tile]) noexcept {
    const auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
        const std::uint64_t number = base[lane] + offset;
        auto c0 = static_cast<std::uint32_t>(number), c1 = static_cast<std::uint32_t>(number >> 32);
        std::uint32_t c2 = 0, c3 = 0, k0 = key0, k1 = key1;
#pragma GCC unroll 10
        for (int round = 0; round < philox::rounds; ++round) {
            const std::uint64_t p0 = std::uint64_t{philox::multiplier0} * c0;
            const std::uint64_t p1 = std::uint64_t{philox::multiplier1} * c2;
            c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
            c1 = static_cast<std::uint32_t>(p1);
            c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
            c3 = static_cast<std::uint32_t>(p0);
            k0 += philox::weyl0;
            k1 += philox::weyl1;
        }
        words[0][lane] = c0;
        words[1][lane] = c1;
        words[2][lane] = c2;
        words[3][lane] = c3;
    }
}

// −ln U of U = (2·(w >> 9) + 1)·2^−24.
inline float exponential(std::uint32_t w) noexcept {
    const float u = static_cast<float>(static_cast<std::int32_t>(2 * (w >> 9) + 1)) * 0x1p-24f;
    const auto bits = __builtin_bit_cast(std::int32_t, u);
    const std::int32_t e = (bits - 0x3F400000) >> 23;  // u = m·2^e with m in [¾, 3/2)
    const auto m = __builtin_bit_cast(float, bits - e * (1 << 23));
    const float t = (m - 1.0f) / (m + 1.0f), y = t * t;
    const float log_m = t * (2.0f + y * (2.0f / 3 + y * (2.0f / 5 + y * (2.0f / 7 + y * (2.0f / 9)))));
    return -(static_cast<float>(e) * 0.693147180559945309f + log_m);
}

inline void roots(float* values, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; i += LANES) root(values + i);
}

// Two coordinates: the root of an exponential, times a uniform point of the unit circle.
inline void coordinates(const std::uint32_t* radii, const std::uint32_t* turns, std::size_t lanes, float* first,
                        float* second) noexcept {
    float radius[tile];
    for (std::size_t lane = 0; lane < lanes; ++lane) radius[lane] = exponential(radii[lane]);
    roots(radius, lanes);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
        const std::uint32_t w = turns[lane];
        const float odd = static_cast<float>(2 * (static_cast<std::int32_t>(w) >> 8) + 1);
        const float phi = odd * (0.785398163397448310f * 0x1p-24f), y = phi * phi;
        const float sine =
            phi * (1.0f + y * (-1.0f / 6 + y * (1.0f / 120 + y * (-1.0f / 5040 + y * (1.0f / 362880)))));
        const float plain = 1.0f + y * (-1.0f / 2 + y * (1.0f / 24 + y * (-1.0f / 720 + y * (1.0f / 40320))));
        const std::uint32_t cosine_bits = __builtin_bit_cast(std::uint32_t, plain) ^ (w & 2u) << 30;
        const std::uint32_t sine_bits = __builtin_bit_cast(std::uint32_t, sine);
        const std::uint32_t swap = (cosine_bits ^ sine_bits) & (0u - (w & 1u));
        first[lane] = radius[lane] * __builtin_bit_cast(float, cosine_bits ^ swap);
        second[lane] = radius[lane] * __builtin_bit_cast(float, sine_bits ^ swap);
    }
}

void points(std::uint64_t seed, const std::uint64_t* pairs, std::size_t lanes, std::size_t d, float* out) noexcept {
    const std::size_t twos = (d + 1) / 2, blocks = (twos + 1) / 2;
    std::uint32_t words[4][tile];
    std::uint64_t base[tile];
    for (std::size_t lane = 0; lane < lanes; ++lane) base[lane] = pairs[lane] * blocks;
    for (std::size_t k = 0; k < blocks; ++k) {
        float* const row = out + 4 * k * tile;
        philox_rows(seed, base, k, lanes, words);
        coordinates(words[0], words[1], lanes, row, row + tile);
        if (2 * k + 1 < twos) coordinates(words[2], words[3], lanes, row + 2 * tile, row + 3 * tile);
    }
    float scale[tile];
    for (std::size_t lane = 0; lane < lanes; ++lane) scale[lane] = out[lane] * out[lane];
    for (std::size_t i = 1; i < d; ++i) {
        const float* const row = out + i * tile;
        for (std::size_t lane = 0; lane < lanes; ++lane) scale[lane] += row[lane] * row[lane];
    }
    roots(scale, lanes);
    for (std::size_t lane = 0; lane < lanes; ++lane) scale[lane] = spherical::radius / scale[lane];
    for (std::size_t i = 0; i < d; ++i) {
        float* const row = out + i * tile;
        for (std::size_t lane = 0; lane < lanes; ++lane) row[lane] *= scale[lane];
    }
}

inline Vector load_vector(const float* p) noexcept {
    Vector v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

std::size_t scan(const float* points, const float* u, std::size_t d, float least, std::size_t from) noexcept {
    constexpr std::size_t registers = 8, width = registers * LANES;
    // Magnitudes are compared as the integers that their bits make: the same order, and no NaN is among them.
    const Pattern magnitude = Pattern{} + 0x7FFFFFFF;
    const std::int32_t bound = __builtin_bit_cast(std::int32_t, least) - 1;
    for (std::size_t part = from / width * width; part < tile; part += width) {
        const float* const column = points + part;
        Vector sums[registers];
#pragma GCC unroll 8
        for (std::size_t j = 0; j < registers; ++j) sums[j] = load_vector(column + j * LANES) * u[0];
        for (std::size_t i = 1; i < d; ++i) {
            const Vector factor = Vector{} + u[i];
#pragma GCC unroll 8
            for (std::size_t j = 0; j < registers; ++j) sums[j] += load_vector(column + i * tile + j * LANES) * factor;
        }
        Pattern largest{};
#pragma GCC unroll 8
        for (std::size_t j = 0; j < registers; ++j) {
            const Pattern bits = __builtin_bit_cast(Pattern, sums[j]) & magnitude;
            largest = bits > largest ? bits : largest;
        }
        if (!above(largest, bound)) [[likely]]
            continue;
        float products[width];
        std::memcpy(products, sums, sizeof products);
        for (std::size_t lane = from > part ? from - part : 0; lane < width; ++lane)
            if (__builtin_fabsf(products[lane]) >= least) return part + lane;
    }
    return tile;
}

constexpr SphericalKernels table{points, scan};
