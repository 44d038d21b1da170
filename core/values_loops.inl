// Included by values.cpp, values_avx2.cpp and values_avx512.cpp inside a namespace of their own: the compiler turns
// the same loops into each instruction set. Nothing here depends on the order of a floating-point reduction.
inline std::uint32_t bits_of(float x) {
    std::uint32_t b;
    std::memcpy(&b, &x, 4);
    return b;
}

inline float float_of(std::uint32_t b) {
    float x;
    std::memcpy(&x, &b, 4);
    return x;
}

// A magnitude's bits, which are ordered as the magnitudes are. Signed, because SSE2 compares no other numbers.
inline std::int32_t magnitude_of(float x) { return static_cast<std::int32_t>(bits_of(x) & 0x7FFFFFFFu); }

// Loops over long vectors ask for what is so far ahead, run by run: the processor's own prefetching stops at the ends of
// pages, and rests while something else is done between two blocks.
constexpr std::size_t run = 256;
constexpr std::size_t ahead = 1024;

inline void prefetch_run(const float* x) {
    for (std::size_t i = 0; i < run; i += 16) __builtin_prefetch(x + ahead + i);
}

// Sixteen numbers as one, which the compiler makes registers of: of a loop over an array it makes fewer, and adds up at
// the end of each run.
using Sixteen = std::uint32_t __attribute__((vector_size(64)));

// Whether 64·j entries are all finite, j ≥ 1.
inline bool are_finite(const float* x, std::size_t n) {
    Sixteen any = {};  // the highest bit where an exponent is full
    const auto look = [&any](const float* at) {
        __builtin_prefetch(at + ahead);
        Sixteen bits;
        std::memcpy(&bits, at, sizeof(bits));
        any |= (bits & 0x7FFFFFFFu) + 0x00800000u;
    };
    // Numpy's arrays begin 16 bytes into a line: whole lines are read faster, and what is read twice changes nothing.
    look(x);
    const std::size_t first = (64 - reinterpret_cast<std::uintptr_t>(x) % 64) / 4;
    for (std::size_t i = first; i + 64 <= n; i += 64) {
#pragma GCC unroll 4
        for (std::size_t line = i; line < i + 64; line += 16) look(x + line);
    }
    for (std::size_t line = n - 64; line < n; line += 16) look(x + line);
    std::uint32_t all = 0;
    for (int j = 0; j < 16; ++j) all |= any[j];
    return all >> 31 == 0;
}

std::size_t find_nonfinite(const float* x, std::size_t n) {
    constexpr std::size_t block = 4096;
    for (std::size_t begin = 0; begin < n; begin += block) {
        const std::size_t end = begin + block < n ? begin + block : n;
        const std::size_t whole = begin + (end - begin) / 64 * 64;
        const bool clean = whole != begin && are_finite(x + begin, whole - begin);
        for (std::size_t i = clean ? whole : begin; i < end; ++i)
            if (magnitude_of(x[i]) > 0x7F7FFFFF) return i;
    }
    return n;
}

float max_abs(const float* x, std::size_t n) {
    // Sixteen maxima side by side: SSE2 has no instruction for a maximum, without which GCC does not turn a reduction
    // into vectors.
    constexpr std::size_t lanes = 16;
    std::int32_t tops[lanes] = {};
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        __builtin_prefetch(x + i + ahead);
        for (std::size_t j = 0; j < lanes; ++j) {
            const std::int32_t magnitude = magnitude_of(x[i + j]);
            tops[j] = magnitude > tops[j] ? magnitude : tops[j];
        }
    }
    std::int32_t top = 0;
    for (const std::int32_t t : tops) top = t > top ? t : top;
    for (; i < n; ++i) top = magnitude_of(x[i]) > top ? magnitude_of(x[i]) : top;
    return float_of(static_cast<std::uint32_t>(top));
}

void sum(const float* x, const float* y, std::size_t n, float* out) {
    for (std::size_t begin = 0; begin < n; begin += run) {
        const std::size_t end = begin + run < n ? begin + run : n;
        prefetch_run(x + begin);
        prefetch_run(y + begin);
#pragma GCC ivdep  // entry i of out is no other entry of x or y
        for (std::size_t i = begin; i < end; ++i) out[i] = x[i] + y[i];
    }
}

void add_dense(float* out, const float* values, std::size_t n, float weight) {
    for (std::size_t i = 0; i < n; ++i) out[i] += weight * values[i];
}

inline std::uint16_t bfloat16_of(float x) {
    const std::uint32_t b = bits_of(x);
    const std::uint32_t rounded = (b + 0x7FFFu + ((b >> 16) & 1u)) >> 16;
    return static_cast<std::uint16_t>((rounded & 0x7FFFu) >= 0x7F80u ? (rounded & 0x8000u) | 0x7F7Fu : rounded);
}

void encode_bfloat16(const float* x, std::size_t n, std::uint16_t* out) {
    constexpr std::size_t lanes = 32;
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        __builtin_prefetch(x + ahead + i);
        __builtin_prefetch(x + ahead + i + 16);
        for (std::size_t j = 0; j < lanes; ++j) out[i + j] = bfloat16_of(x[i + j]);
    }
    for (; i < n; ++i) out[i] = bfloat16_of(x[i]);
}

void decode_bfloat16(const std::uint16_t* h, std::size_t n, float* out) {
    for (std::size_t i = 0; i < n; ++i) out[i] = float_of(static_cast<std::uint32_t>(h[i]) << 16);
}

// Where the processor has F16C its instruction rounds; here the same rounding in integers.
inline std::uint16_t half_of(float x) {
    const std::uint32_t b = bits_of(x);
    const std::uint32_t sign = (b >> 16) & 0x8000u;
    const std::uint32_t magnitude = b & 0x7FFFFFFFu;
    if (magnitude >= 0x477FF000u) return static_cast<std::uint16_t>(sign | 0x7BFFu);  // rounds above 65504
    if (magnitude < 0x38800000u) {  // below 2^-14: a binary16 subnormal; adding 0.5 rounds at its last place
        const float shifted = float_of(magnitude) + 0.5f;
        return static_cast<std::uint16_t>(sign | (bits_of(shifted) - 0x3F000000u));
    }
    const std::uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

inline float float_of_finite_half(std::uint16_t h) {
    // The bits as a float 112 binades too low, put right by a multiplication: exact, subnormals included.
    const float low = float_of((h & 0x7FFFu) << 13);
    return float_of((h & 0x8000u) << 16 | bits_of(low * float_of(0x77800000u)));
}

inline float float_of_half(std::uint16_t h) {
    const std::uint32_t sign = (h & 0x8000u) << 16;
    const std::uint32_t magnitude = h & 0x7FFFu;
    if (magnitude >= 0x7C00u) return float_of(sign | 0x7F800000u | ((magnitude & 0x3FFu) << 13));
    return float_of_finite_half(h);
}

void encode_float16(const float* x, std::size_t n, int exponent, std::uint16_t* out) {
    const float scale = std::ldexp(1.0f, -exponent);
    std::size_t i = 0;
#if defined(__F16C__)
    const __m256 scales = _mm256_set1_ps(scale), most = _mm256_set1_ps(65504.0f), least = _mm256_set1_ps(-65504.0f);
    for (; i + 8 <= n; i += 8) {
        __builtin_prefetch(x + ahead + i);
        const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x + i), scales);
        const __m128i halves = _mm256_cvtps_ph(_mm256_max_ps(_mm256_min_ps(scaled, most), least), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
    }
#endif
    for (; i < n; ++i) out[i] = half_of(x[i] * scale);
}

void decode_float16(const std::uint16_t* h, std::size_t n, int exponent, float* out) {
    const float scale = std::ldexp(1.0f, exponent);
    for (std::size_t i = 0; i < n; ++i) out[i] = float_of_half(h[i]) * scale;
}

// What lies in a message may be unaligned, so it is copied out: which costs nothing.
template <class T>
inline T number_at(const std::uint8_t* data, std::size_t i) {
    T value;
    std::memcpy(&value, data + i * sizeof(T), sizeof(T));
    return value;
}

// Whether all exponents, in the bits of `mask`, have a zero.
template <class T>
bool no_full_exponent(const std::uint8_t* data, std::size_t n, T mask) {
    constexpr std::size_t block = 8192;
    for (std::size_t begin = 0; begin < n; begin += block) {
        const std::size_t end = begin + block < n ? begin + block : n;
        T any = 0;  // negative if an exponent is full
        for (std::size_t i = begin; i < end; ++i)
            any = static_cast<T>(any | static_cast<T>(mask - 1 - (number_at<T>(data, i) & mask)));
        if (any < 0) return false;
    }
    return true;
}

bool all_finite(const std::uint8_t* data, std::size_t n, FloatFormat format) {
    switch (format) {
        case FloatFormat::float32: return no_full_exponent<std::int32_t>(data, n, 0x7F800000);
        case FloatFormat::float16: return no_full_exponent<std::int16_t>(data, n, 0x7C00);
        case FloatFormat::bfloat16: break;
    }
    return no_full_exponent<std::int16_t>(data, n, 0x7F80);
}

void add_floats(float* out, const std::uint8_t* data, std::size_t n, FloatFormat format, int exponent, float weight) {
    switch (format) {
        case FloatFormat::float32:
            for (std::size_t i = 0; i < n; ++i) out[i] += weight * number_at<float>(data, i);
            return;
        case FloatFormat::float16: {
            const float scale = std::ldexp(1.0f, exponent);
            for (std::size_t i = 0; i < n; ++i)
                out[i] += weight * (float_of_finite_half(number_at<std::uint16_t>(data, i)) * scale);
            return;
        }
        case FloatFormat::bfloat16:
            for (std::size_t i = 0; i < n; ++i)
                out[i] += weight * float_of(static_cast<std::uint32_t>(number_at<std::uint16_t>(data, i)) << 16);
            return;
    }
}

constexpr ValueKernels table{find_nonfinite,  max_abs,        sum,            add_dense,  encode_bfloat16,
                             decode_bfloat16, encode_float16, decode_float16, all_finite, add_floats};
