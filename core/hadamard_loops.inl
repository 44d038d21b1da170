// Included by hadamard.cpp, hadamard_avx2.cpp and hadamard_avx512.cpp inside a namespace of their own.

// Two stages at once, of distances h and 2h, on 4h entries.
inline void two_stages(float* x, std::size_t h) {
    float* __restrict a = x;
    float* __restrict b = x + h;
    float* __restrict c = x + 2 * h;
    float* __restrict d = x + 3 * h;
    for (std::size_t j = 0; j < h; ++j) {
        const float s = a[j] + b[j], t = a[j] - b[j], u = c[j] + d[j], v = c[j] - d[j];
        a[j] = s + u;
        b[j] = t + v;
        c[j] = s - u;
        d[j] = t - v;
    }
}

inline void one_stage(float* x, std::size_t h) {
    float* __restrict a = x;
    float* __restrict b = x + h;
    for (std::size_t j = 0; j < h; ++j) {
        const float s = a[j] + b[j], t = a[j] - b[j];
        a[j] = s;
        b[j] = t;
    }
}

// The stages of distance first, 2·first, … below end, on entries 0 … size − 1.
void stages(float* x, std::size_t size, std::size_t first, std::size_t end) {
    std::size_t h = first;
    if (h == 1 && end >= 16) {
        // The four short stages on sixteen entries, with trip counts that the compiler knows.
        for (float* y = x; y < x + size; y += 16) {
            for (std::size_t i = 0; i < 16; i += 4) two_stages(y + i, 1);
            two_stages(y, 4);
        }
        h = 16;
    }
    for (; 2 * h < end; h *= 4)
        for (float* y = x; y < x + size; y += 4 * h) two_stages(y, h);
    if (h < end)
        for (float* y = x; y < x + size; y += 2 * h) one_stage(y, h);
}

void transform(float* x, unsigned log2n) {
    const std::size_t n = std::size_t{1} << log2n;
    constexpr std::size_t block = std::size_t{1} << kashin_longest;
    if (n <= block) return stages(x, n, 1, n);
    // Short distances block by block in the cache, then the long ones: each value sees its stages in the same order.
    for (float* y = x; y < x + n; y += block) stages(y, block, 1, block);
    stages(x, n, block, n);
}

void embed(const float* y, const Frame& frame, float* p) {
    const std::size_t n = std::size_t{1} << frame.log2n;
    for (std::size_t i = 0; i < n; ++i) p[i] = 0;
    for (std::size_t i = 0; i < frame.count; ++i) p[frame.positions[i]] = y[i] * frame.signs[i];
}

float largest_magnitude(const float* p, std::size_t n) {
    // Magnitudes are ordered as their bits are, and integer maxima vectorise.
    std::uint32_t m = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(p[i]) & 0x7FFFFFFFu;
        m = m < bits ? bits : m;
    }
    return std::bit_cast<float>(m);
}

// p ← w + H E(y − y(w)): w corrected to represent y; y(w) is what w represents. residual: scratch of frame.count.
void correct(const float* y, const Frame& frame, const float* w, float* p, float* residual) {
    const std::size_t n = std::size_t{1} << frame.log2n;
    const float share = std::ldexp(1.0f, -static_cast<int>(frame.log2n));
    for (std::size_t i = 0; i < n; ++i) p[i] = w[i];
    transform(p, frame.log2n);
    for (std::size_t i = 0; i < frame.count; ++i)
        residual[i] = y[i] - p[frame.positions[i]] * (share * frame.signs[i]);
    embed(residual, frame, p);
    transform(p, frame.log2n);
    for (std::size_t i = 0; i < n; ++i) p[i] += w[i];
}

// Douglas and Rachford's iteration between the box [−goal, goal]^N and the plane of representations: truncation as
// Lyubarskii and Vershynin have it, but reflected, which needs a third of their rounds.
float represent(const float* y, const Frame& frame, float goal, int rounds, float* p, float* scratch) {
    const std::size_t n = std::size_t{1} << frame.log2n;
    const float limit = goal * (1.0f - 0x1p-8f);  // within the goal, so that it is reached and not approached for ever
    float *z = scratch, *w = scratch + n, *residual = scratch + 2 * n;
    embed(y, frame, p);
    transform(p, frame.log2n);
    for (std::size_t i = 0; i < n; ++i) z[i] = p[i];
    float largest = largest_magnitude(p, n);
    for (int round = 0; round < rounds && largest > goal; ++round) {
        for (std::size_t i = 0; i < n; ++i) {
            float b = z[i] < -limit ? -limit : z[i];
            b = b > limit ? limit : b;
            w[i] = (b + b) - z[i];
            z[i] = z[i] - b;
        }
        correct(y, frame, w, p, residual);
        for (std::size_t i = 0; i < n; ++i) z[i] = z[i] + p[i];
        largest = largest_magnitude(p, n);
    }
    return largest;
}

constexpr HadamardKernels table{transform, represent};
