// The Walsh–Hadamard transform and Kashin's representation, and rounding to powers of two, against their definitions on
// every instruction set, with buffers of exactly the promised sizes. Returns non-zero on the first difference.
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "dispatch.hpp"
#include "hadamard.hpp"
#include "natural.hpp"

using namespace gradwire;

namespace {

using Floats = std::vector<float>;
using Words = std::vector<std::uint32_t>;

[[noreturn]] void fail(const std::string& what) {
    std::printf("FAILED %s\n", what.c_str());
    std::exit(1);
}

Floats random_floats(std::size_t n, unsigned seed) {
    std::mt19937 g(seed);
    std::normal_distribution<float> d;
    Floats x(n);
    for (float& v : x) v = d(g);
    return x;
}

// Stage after stage, as the definition goes.
Floats by_definition(Floats x) {
    for (std::size_t h = 1; h < x.size(); h *= 2)
        for (std::size_t i = 0; i < x.size(); ++i)
            if ((i & h) == 0) {
                const float a = x[i], b = x[i + h];
                x[i] = a + b;
                x[i + h] = a - b;
            }
    return x;
}

void check_transform() {
    for (unsigned log2n = 0; log2n <= 15; ++log2n) {
        Floats x = random_floats(std::size_t{1} << log2n, log2n);
        const Floats expected = by_definition(x);
        hadamard_kernels().transform(x.data(), log2n);
        if (x != expected) fail("transform of 2^" + std::to_string(log2n));
    }
}

void check_representation() {
    for (const auto& [log2n, count] : {std::pair<unsigned, std::size_t>{1, 1}, {4, 7}, {9, 300}, {12, 2048}}) {
        const std::size_t n = std::size_t{1} << log2n;
        const Floats y = random_floats(count, 7);
        Words positions(count);
        Floats signs(count);
        double energy = 0;
        for (std::size_t i = 0; i < count; ++i) {
            positions[i] = static_cast<std::uint32_t>(i * n / count);
            signs[i] = i % 3 == 0 ? -1.0f : 1.0f;
            energy += static_cast<double>(y[i]) * y[i];
        }
        Floats p(n), scratch(3 * n);
        const Frame frame{positions.data(), signs.data(), count, log2n};
        const auto goal = static_cast<float>(1.9 * std::sqrt(energy));
        const float largest = hadamard_kernels().represent(y.data(), frame, goal, 24, p.data(), scratch.data());
        float most = 0;
        for (const float v : p) most = std::max(most, std::fabs(v));
        if (most != largest) fail("largest coefficient of 2^" + std::to_string(log2n));
        const Floats back = by_definition(p);
        for (std::size_t i = 0; i < count; ++i)
            if (std::fabs(back[positions[i]] * signs[i] / static_cast<float>(n) - y[i]) > 1e-5f)
                fail("representation in 2^" + std::to_string(log2n));
    }
}

void check_natural() {
    const std::size_t n = 1003;
    std::mt19937 g(1);
    Floats x(n);
    Words words(n), codes(n);
    for (std::size_t i = 0; i < n; ++i) {
        words[i] = static_cast<std::uint32_t>(g());
        const float v = std::bit_cast<float>(static_cast<std::uint32_t>(g()) >> (i % 20));  // denormals among them
        x[i] = std::isfinite(v) ? (i % 2 ? v : -v) : 0.0f;
    }
    natural_kernels().round(x.data(), n, natural_lowest, words.data(), codes.data());
    for (std::size_t i = 0; i < n; ++i) {
        int exponent = 0;
        const double mantissa = std::frexp(std::fabs(static_cast<double>(x[i])), &exponent);  // in [1/2, 1)
        const double up = (2 * mantissa - 1) * 0x1p23 + (words[i] >> 9) >= 0x1p23 ? 0.0 : -1.0;
        const auto code = static_cast<std::uint32_t>(2 * (exponent + static_cast<int>(up) + natural_bias)) + std::signbit(x[i]);
        if (codes[i] != (x[i] == 0 ? 0 : code)) fail("natural rounding of entry " + std::to_string(i));
    }
}

}  // namespace

int main() {
    for (const Simd level : {Simd::portable, Simd::avx2, Simd::avx512}) {
        if (set_simd(level) != level) continue;
        check_transform();
        check_representation();
        check_natural();
    }
    std::printf("ok\n");
    return 0;
}
