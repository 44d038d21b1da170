// Included by quantise.cpp, quantise_avx2.cpp and quantise_avx512.cpp inside a namespace of their own.

constexpr std::size_t block = std::size_t{1} << 20;
constexpr std::size_t lanes = 16;

// The order of 4.6: 16 partial sums a block, folded in halves, blocks one after another.
template <class Term>
double ordered_sum(std::size_t n, Term term) {
    double total = 0;
    for (std::size_t begin = 0; begin < n; begin += block) {
        const std::size_t end = begin + block < n ? begin + block : n;
        double s[lanes] = {};
        std::size_t i = begin;
        for (; i + lanes <= end; i += lanes)
            for (std::size_t j = 0; j < lanes; ++j) s[j] += term(i + j);
        for (std::size_t j = 0; i < end; ++i, ++j) s[j] += term(i);
        for (std::size_t half = lanes / 2; half > 0; half /= 2)
            for (std::size_t j = 0; j < half; ++j) s[j] += s[j + half];
        total += s[0];
    }
    return total;
}

double sum_squares(const float* x, std::size_t n) {
    return ordered_sum(n, [x](std::size_t i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); });
}

double sum_abs(const float* x, std::size_t n) {
    return ordered_sum(n, [x](std::size_t i) { return static_cast<double>(std::fabs(x[i])); });
}

// Levels stay within ±2^22, where binary32 still has halves; adding and taking away 1.5·2^23 then rounds to the nearest
// integer, ties to even.
constexpr float most = 4194304.0f;
constexpr float rounder = 12582912.0f;

inline float nearest(float t) { return (t + rounder) - rounder; }

inline float clamped(float t) {
    t = t < -most ? -most : t;
    return t > most ? most : t;
}

inline float floored(float t) {
    const float k = nearest(t);
    return k - (k > t ? 1.0f : 0.0f);
}

inline float uniform(std::uint32_t word) { return static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24f; }

inline std::uint32_t zigzag_of(float k) {
    const auto v = static_cast<std::int32_t>(k);
    return (static_cast<std::uint32_t>(v) << 1) ^ static_cast<std::uint32_t>(v >> 31);
}

inline float level_of(std::uint32_t z) {
    return static_cast<float>(static_cast<std::int32_t>((z >> 1) ^ (0u - (z & 1u))));
}

LevelSums level_sums(const float* x, std::size_t n, float inverse) {
    // Three sums at once would be one pass; the memory is read once a block and then again from the cache.
    LevelSums sums{};
    constexpr std::size_t piece = 4096;
    float k[piece];
    double total_products = 0, total_squares = 0;
    for (std::size_t begin = 0; begin < n; begin += block) {
        const std::size_t end = begin + block < n ? begin + block : n;
        double products[lanes] = {}, squares[lanes] = {};
        for (std::size_t from = begin; from < end; from += piece) {
            const std::size_t size = from + piece < end ? piece : end - from;
            const float* y = x + from;
            std::uint32_t count = 0;
            for (std::size_t i = 0; i < size; ++i) {
                k[i] = nearest(clamped(y[i] * inverse));
                count += k[i] != 0.0f;
            }
            sums.nonzero += count;
            std::size_t i = 0;
            for (; i + lanes <= size; i += lanes)
                for (std::size_t j = 0; j < lanes; ++j) {
                    products[j] += static_cast<double>(y[i + j]) * static_cast<double>(k[i + j]);
                    squares[j] += static_cast<double>(k[i + j]) * static_cast<double>(k[i + j]);
                }
            for (std::size_t j = 0; i < size; ++i, ++j) {
                products[j] += static_cast<double>(y[i]) * static_cast<double>(k[i]);
                squares[j] += static_cast<double>(k[i]) * static_cast<double>(k[i]);
            }
        }
        for (std::size_t half = lanes / 2; half > 0; half /= 2)
            for (std::size_t j = 0; j < half; ++j) {
                products[j] += products[j + half];
                squares[j] += squares[j + half];
            }
        total_products += products[0];
        total_squares += squares[0];
    }
    sums.products = total_products;
    sums.squares = total_squares;
    return sums;
}

void quantise(const float* x, std::size_t n, float inverse, Rounding rounding, const std::uint32_t* words,
              std::uint32_t* zigzag) {
    switch (rounding) {
        case Rounding::nearest:
            for (std::size_t i = 0; i < n; ++i) zigzag[i] = zigzag_of(nearest(clamped(x[i] * inverse)));
            return;
        case Rounding::stochastic:
            for (std::size_t i = 0; i < n; ++i) {
                const float t = clamped(x[i] * inverse);
                const float k = floored(t);
                zigzag[i] = zigzag_of(k + (uniform(words[i]) < t - k ? 1.0f : 0.0f));
            }
            return;
        case Rounding::shared:
            for (std::size_t i = 0; i < n; ++i) {
                const float t = clamped(x[i] * inverse);
                const float k = floored(t);
                zigzag[i] = zigzag_of(k + nearest((t - k) + (uniform(words[i]) - 0.5f)));
            }
            return;
    }
}

void dequantise(const std::uint32_t* zigzag, std::size_t n, float step, const std::uint32_t* words, float* out) {
    if (words == nullptr)
        for (std::size_t i = 0; i < n; ++i) out[i] = step * level_of(zigzag[i]);
    else
        for (std::size_t i = 0; i < n; ++i) out[i] = step * (level_of(zigzag[i]) - (uniform(words[i]) - 0.5f));
}

void add_scaled(float* out, const float* values, std::size_t n, float power, float weight) {
    constexpr float largest = std::numeric_limits<float>::max();
    for (std::size_t i = 0; i < n; ++i) {
        float value = values[i] * power;
        value = value < -largest ? -largest : value;
        value = value > largest ? largest : value;
        out[i] += weight * value;
    }
}

constexpr QuantiseKernels table{sum_squares, sum_abs, level_sums, quantise, dequantise, add_scaled};
