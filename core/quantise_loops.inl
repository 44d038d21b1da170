// Included by quantise.cpp, quantise_avx2.cpp and quantise_avx512.cpp inside a namespace of their own.

constexpr std::size_t block = std::size_t{1} << 20;
constexpr std::size_t lanes = partial_sums;

// Entries that are asked for before they are due, where what is done between two pieces lets the processor's own
// prefetching fall behind.
[[maybe_unused]] constexpr std::size_t ahead = 4096;

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

inline float saturated(float value) {
    constexpr float largest = std::numeric_limits<float>::max();
    value = value < -largest ? -largest : value;
    return value > largest ? largest : value;
}

void add_scaled(float* out, const float* values, std::size_t n, float power, float weight) {
    for (std::size_t i = 0; i < n; ++i) out[i] += weight * saturated(values[i] * power);
}

void add_dithered(float* __restrict out, const std::uint8_t* __restrict tokens, std::size_t n,
                  const std::uint32_t* __restrict words, float step, float power, float weight) {
    for (std::size_t i = 0; i < n; ++i) {
        const float q = level_of(tokens[i]) - (uniform(words[i]) - 0.5f);
        out[i] += weight * saturated((step * q) * power);
    }
}

// work(begin, end, divisor or step of the bucket) for the runs of one bucket each in a piece that starts at entry `first`.
template <class Work>
inline void by_bucket(std::size_t first, std::size_t n, const float* of_bucket, std::size_t bucket, Work work) {
    std::size_t b = first / bucket, end = (b + 1) * bucket - first;
    for (std::size_t begin = 0; begin < n; begin = end, end += bucket, ++b)
        work(begin, end < n ? end : n, of_bucket[b]);
}

void divide(const float* x, std::size_t first, std::size_t n, const float* divisors, std::size_t bucket,
            float* __restrict quotients) {
    by_bucket(first, n, divisors, bucket, [=](std::size_t begin, std::size_t end, float divisor) {
        std::size_t i = begin;
        for (; i + lanes <= end; i += lanes) {
            __builtin_prefetch(x + i + ahead);
            for (std::size_t j = 0; j < lanes; ++j) quotients[i + j] = x[i + j] / divisor;
        }
        for (; i < end; ++i) quotients[i] = x[i] / divisor;
    });
}

void multiply(float* values, std::size_t first, std::size_t n, const float* steps, std::size_t bucket) {
    by_bucket(first, n, steps, bucket, [=](std::size_t begin, std::size_t end, float step) {
        for (std::size_t i = begin; i < end; ++i) values[i] *= step;
    });
}
