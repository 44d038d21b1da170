// Levels and plain floats on every instruction set, with buffers of exactly the promised sizes: the same blocks, sums and
// additions as the portable loops give. Returns non-zero on the first difference.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "dispatch.hpp"
#include "levels.hpp"
#include "spare.hpp"
#include "values.hpp"

using namespace gradwire;

namespace {

using Bytes = std::vector<std::uint8_t>;
using Floats = std::vector<float>;

[[noreturn]] void fail(const std::string& what) {
    std::printf("FAILED %s\n", what.c_str());
    std::exit(1);
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Of deviation 2, with a few entries that are `spike` times as large.
Floats vector_of(std::size_t n, float spike) {
    std::mt19937 g(static_cast<unsigned>(n));
    std::normal_distribution<float> d(0, 2);
    Floats x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = d(g) * (i % 5003 == 5002 ? spike : 1.0f);
    return x;
}

struct Encoded {
    Bytes block;
    LevelSums sums;
    Extent extent;
    Floats added;
};

Encoded round_trip(const Floats& x, const Quantiser& quantiser, const Dequantiser& dequantiser) {
    const std::size_t m = x.size();
    Bytes tokens(m), wide(m), extra(extra_bound(m)), block(block_bound(m, 29 * std::uint64_t{m}));
    std::vector<std::uint16_t> stack(m + stack_slack);
    const LevelBlock made =
        encode_level_block(x.data(), 0, m, quantiser, {tokens.data(), wide.data(), extra.data(), stack.data(), block.data()});
    Encoded result{Bytes(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(made.size)), made.sums,
                   quantise_kernels().extent(x.data(), m), Floats(m, 0.25f)};

    ByteReader reader(result.block.data(), result.block.size());
    const Block read = read_block(reader, m);
    if (reader.left() != 0) fail("a block is longer than it reads");
    Bytes decoded(m), decoded_wide(m);
    Floats addends(std::max<std::size_t>(dequantiser.count, plain_limit));
    check_level_block(read, dequantiser, decoded.data(), decoded_wide.data());
    add_level_block(read, decoded.data(), dequantiser, result.added.data(), 0, decoded_wide.data(), addends.data());
    return result;
}

bool equal(const Encoded& a, const Encoded& b) {
    return same(a.block, b.block) && same(a.added, b.added) && a.sums.products == b.sums.products &&
           a.sums.squares == b.sums.squares && a.sums.nonzero == b.sums.nonzero && a.extent.largest == b.extent.largest &&
           a.extent.squares == b.extent.squares;
}

void check_levels(Simd level) {
    for (const std::size_t n : {1, 2, 7, 15, 16, 17, 33, 63, 64, 65, 4095, 4096, 4097, 20'011})
        for (const float spike : {1.0f, 1e3f, 1e30f})
            for (const int rounding : {0, 1, 2}) {
                const Floats x = vector_of(n, spike);
                const Quantiser quantiser{2.0f, static_cast<Rounding>(rounding), 5, 1, rounding == 0};
                const Dequantiser dequantiser{0.5f, 1.0f, -3.0f, rounding == 2, 5, 1};
                set_simd(Simd::portable);
                const Encoded expected = round_trip(x, quantiser, dequantiser);
                set_simd(level);
                if (!equal(round_trip(x, quantiser, dequantiser), expected))
                    fail("levels of " + std::to_string(n) + ", rounding " + std::to_string(rounding));
                if (rounding != 0) continue;
                const LevelSums sums = quantise_kernels().level_sums(x.data(), n, 2.0f);
                if (sums.products != expected.sums.products || sums.squares != expected.sums.squares ||
                    sums.nonzero != expected.sums.nonzero)
                    fail("level sums of " + std::to_string(n));
            }
}

// Buckets: what comes back lies within its bucket's step of what went in.
void check_buckets(Simd level) {
    for (const std::size_t n : {1, 5, 4095, 4096, 9001})
        for (const std::size_t bucket : {std::size_t{1}, std::size_t{3}, std::size_t{700}, n}) {
            Floats x = vector_of(n, 50.0f), steps;
            for (std::size_t b = 0; b * bucket < n; ++b) steps.push_back(0.125f * static_cast<float>(1 + b % 7));
            Quantiser quantiser{1.0f, Rounding::stochastic, 9, 0, false};
            quantiser.divisors = steps.data();
            quantiser.bucket = bucket;
            Dequantiser dequantiser{1.0f, 4.0f, 1.0f, false, 0, 0};
            dequantiser.steps = steps.data();
            dequantiser.bucket = bucket;
            set_simd(Simd::portable);
            const Encoded expected = round_trip(x, quantiser, dequantiser);
            set_simd(level);
            if (!equal(round_trip(x, quantiser, dequantiser), expected)) fail("buckets of " + std::to_string(bucket));
            for (std::size_t i = 0; i < n; ++i)
                if (!(std::fabs((expected.added[i] - 0.25f) / 4.0f - x[i]) <= steps[i / bucket] * 1.001f))
                    fail("entry " + std::to_string(i) + " of buckets of " + std::to_string(bucket));
        }
}

// A table of values in place of a step: entry z of it for zigzag z, and no level beyond it.
void check_table(Simd level) {
    for (const float deviation : {1.0f, 30.0f}) {
        const Floats x = vector_of(9001, 1.0f);
        const Quantiser quantiser{deviation, Rounding::nearest, 0, 0, true};
        std::vector<std::uint32_t> zigzag(x.size());
        quantise_kernels_portable.quantise(x.data(), x.size(), deviation, Rounding::nearest, nullptr, zigzag.data());
        const std::uint32_t top = *std::max_element(zigzag.begin(), zigzag.end());
        Floats values(top + 1);
        for (std::size_t z = 0; z < values.size(); ++z) values[z] = std::sqrt(static_cast<float>(z));
        Dequantiser dequantiser{1.0f, 1.0f, 0.3f, false, 0, 0};
        dequantiser.values = values.data();
        dequantiser.count = top + 1;
        set_simd(level);
        const Encoded made = round_trip(x, quantiser, dequantiser);
        for (std::size_t i = 0; i < x.size(); ++i)
            if (made.added[i] != 0.25f + 0.3f * values[zigzag[i]]) fail("entry " + std::to_string(i) + " by table");
        dequantiser.count = top;
        bool refused = false;
        try {
            round_trip(x, quantiser, dequantiser);
        } catch (const MessageError&) {
            refused = true;
        }
        if (!refused) fail("a level beyond the table is taken");
    }
}

void check_floats(Simd level) {
    std::mt19937 g(3);
    for (const FloatFormat format : {FloatFormat::float32, FloatFormat::float16, FloatFormat::bfloat16})
        for (const std::size_t n : {0, 1, 15, 16, 17, 63, 8191, 8193})
            for (const std::size_t offset : {0, 1, 3}) {
                const std::size_t width = bytes_of(format);
                Bytes data(offset + n * width);
                for (std::uint8_t& byte : data) byte = static_cast<std::uint8_t>(g());
                for (std::size_t i = 0; i < n; ++i) data[offset + (i + 1) * width - 1] &= 0xBB;  // finite
                const auto added = [&](Simd at) {
                    set_simd(at);
                    Floats out(n, 1.0f);
                    if (!value_kernels().all_finite(data.data() + offset, n, format)) fail("finite numbers");
                    value_kernels().add_floats(out.data(), data.data() + offset, n, format, 3, 0.5f);
                    return out;
                };
                if (!same(added(Simd::portable), added(level))) fail("floats, " + std::to_string(n));
                for (std::size_t i = 0; i < n; i += n / 3 + 1) {
                    Bytes bad = data;
                    std::memset(bad.data() + offset + i * width, 0xFF, width);
                    if (value_kernels().all_finite(bad.data() + offset, n, format)) fail("NaN at " + std::to_string(i));
                }
            }
}

void check_spare() {
    const std::uint8_t* first = nullptr;
    {
        const Spare a(1'000'000), b(1'000'000);
        std::memset(a.data(), 1, 1'000'000);
        std::memset(b.data(), 2, 1'000'000);
        if (a.data()[999'999] != 1) fail("spare memory is given out twice");
        first = a.data();
    }
    const Spare again(990'000), other(990'000);
    if (again.data() != first && other.data() != first) fail("spare memory is not used again");
    if (again.data() == other.data()) fail("spare memory is given out twice");
}

}  // namespace

int main() {
    const Simd best = simd();
    for (const Simd level : {Simd::portable, Simd::avx2, Simd::avx512}) {
        if (level > best) break;
        check_levels(level);
        check_buckets(level);
        check_table(level);
        check_floats(level);
    }
    check_spare();
    std::printf("ok\n");
    return 0;
}
