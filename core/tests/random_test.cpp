// Generator, subsets and checksum against published vectors and against their definitions, on every instruction set,
// with buffers of exactly the promised sizes. Returns non-zero on the first difference.
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "crc32c.hpp"
#include "dispatch.hpp"
#include "philox.hpp"
#include "subset_gather.hpp"

using namespace gradwire;

namespace {

using Words = std::vector<std::uint32_t>;

[[noreturn]] void fail(const std::string& what) {
    std::printf("FAILED %s\n", what.c_str());
    std::exit(1);
}

// The known answers that the authors of Philox publish with Random123.
void check_known_answers() {
    using Block = std::array<std::uint32_t, 4>;
    if (philox_block({0, 0, 0, 0}, {0, 0}) != Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8})
        fail("known answer 1");
    const std::uint32_t ones = 0xffffffff;
    if (philox_block({ones, ones, ones, ones}, {ones, ones}) != Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd})
        fail("known answer 2");
    if (philox_block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) !=
        Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1})
        fail("known answer 3");
}

// Word t from its definition alone.
std::uint32_t word(std::uint64_t seed, std::uint64_t stream, std::uint64_t t) {
    const std::uint64_t b = t >> 2;
    return philox_block({static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32),
                         static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                        {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)})[t & 3];
}

void check_words() {
    const std::uint64_t seed = 0xa40938229f31d0cdu, stream = 0x13198a2e03707344u;
    const std::uint64_t carry = std::uint64_t{1} << 34;  // here the counter's low half overflows
    const std::vector<std::uint64_t> starts = {0, 1, 2, 3, 1001, carry - 130, carry - 1, carry << 29, -std::uint64_t{400}};
    for (const std::uint64_t start : starts)
        for (std::size_t count = 0; count <= 400; count = count < 20 ? count + 1 : count + 19) {
            Words got(count);
            philox_words(seed, stream, start, count, got.data());
            std::vector<float> uniform(count);
            philox_uniform(seed, stream, start, count, uniform.data());
            for (std::size_t i = 0; i < count; ++i) {
                const std::uint32_t want = word(seed, stream, start + i);
                if (got[i] != want)
                    fail("philox_words, start = " + std::to_string(start) + ", count = " + std::to_string(count));
                if (static_cast<double>(uniform[i]) * 16777216.0 != want >> 8) fail("philox_uniform");
            }
        }
    const auto block = philox_block({77, 0xffffffff, 0x03707344, 0x13198a2e}, {0x9f31d0cd, 0xa4093822});
    if (philox_child_seed(seed, stream, 77) != (std::uint64_t{block[1]} << 32 | block[0])) fail("philox_child_seed");
}

// One candidate after another, as the format describes it.
Words expected_subset(std::uint64_t seed, std::uint64_t stream, std::uint32_t n, std::uint32_t k) {
    const bool complement = std::uint64_t{2} * k > n;
    std::vector<bool> drawn(n);
    std::uint64_t t = 0;
    for (std::uint32_t left = complement ? n - k : k; left > 0;) {
        const std::uint64_t product = std::uint64_t{word(seed, stream, t++)} * n;
        if (static_cast<std::uint32_t>(product) < (std::uint64_t{1} << 32) % n) continue;
        if (drawn[product >> 32]) continue;
        drawn[product >> 32] = true;
        --left;
    }
    Words subset;
    for (std::uint32_t i = 0; i < n; ++i)
        if (drawn[i] != complement) subset.push_back(i);
    return subset;
}

// The entries that a subset names, from a vector and out of a sum in each place where that may go; and of a vector that
// is not finite somewhere, the place.
void check_gather(const DrawnSubset& drawn, std::size_t n, const Words& subset, std::mt19937_64& random,
                  const std::string& what) {
    const std::size_t k = subset.size();
    std::vector<float> x(n), values(k);
    for (auto& v : x) v = random() % 5 == 0 ? -0.0f : static_cast<float>(static_cast<std::int64_t>(random()));
    const auto bits = [](float v) { return std::bit_cast<std::uint32_t>(v); };
    const auto check_values = [&] {
        for (std::size_t j = 0; j < k; ++j)
            if (bits(values[j]) != bits(x[subset[j]])) fail("values of a subset, " + what);
    };
    if (gather_subset(x.data(), n, drawn, nullptr, values.data()) != n) fail("a finite vector is refused, " + what);
    check_values();

    Words names(n), thinned(k);
    for (auto& v : names) v = static_cast<std::uint32_t>(random());
    thin_entries(names.data(), x.data(), n, drawn, thinned.data(), values.data());
    check_values();
    for (std::size_t j = 0; j < k; ++j)
        if (thinned[j] != names[subset[j]]) fail("thinned indices, " + what);

    std::vector<float> left = x;
    for (const std::uint32_t i : subset)
        if (left[i] != 0) left[i] = 0;
    for (int place = 0; place < 3; ++place) {
        std::vector<float> v = x, zeros(n, -0.0f), elsewhere(n, 7.0f);
        std::vector<float>& total = place == 0 ? elsewhere : place == 1 ? v : zeros;
        Words indices(k);
        if (take_subset(v.data(), zeros.data(), total.data(), n, drawn, indices.data(), values.data()) != n)
            fail("a finite sum is refused, " + what);
        if (indices != subset) fail("indices of take_subset, " + what);
        check_values();
        for (std::size_t i = 0; i < n; ++i)
            if (bits(total[i]) != bits(left[i])) fail("what take_subset leaves, " + what);
    }
    if (n == 0) return;
    const std::size_t bad = random() % n;
    const std::vector<float> zeros(n, -0.0f);
    std::vector<float> total(n);
    Words indices(k);
    x[bad] = random() % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : -std::numeric_limits<float>::infinity();
    x[n - 1 - (n - 1 - bad) / 2] = x[bad];  // the first one counts
    if (gather_subset(x.data(), n, drawn, nullptr, values.data()) != bad) fail("not finite, " + what);
    if (take_subset(x.data(), zeros.data(), total.data(), n, drawn, indices.data(), values.data()) != bad)
        fail("a sum that is not finite, " + what);
    if (bits(total[bad]) != bits(x[bad])) fail("what is not finite is taken, " + what);
}

void check_subset(std::uint32_t n, std::uint32_t k, std::mt19937_64& random, bool gathered) {
    const std::uint64_t seed = random(), stream = random();
    Words got(k + subset_slack);
    std::vector<std::uint64_t> room(subset_draw_words(n, k), ~std::uint64_t{0});
    const DrawnSubset drawn = draw_subset(seed, stream, n, k, room.data());
    subset_positions(drawn, n, got.data());
    got.resize(k);
    const std::string what = "n = " + std::to_string(n) + ", k = " + std::to_string(k);
    if (got != expected_subset(seed, stream, n, k)) fail("subset, " + what);
    if (gathered) check_gather(drawn, n, got, random, what);
}

void check_subsets() {
    std::mt19937_64 random(5);
    const Words sizes = {0, 1, 2, 3, 63, 64, 65, 127, 128, 129, 511, 512, 513, 1000, 4096, 6000, 40001};
    for (const std::uint32_t n : sizes)
        for (const std::uint32_t k : {0u, 1u, n / 100, n / 7, n / 2, n / 2 + 1, n - n / 9, n - 1, n})
            if (k <= n) check_subset(n, k, random, true);
    // Long enough to be drawn region by region: with lists that never fill, and with such that do.
    for (const std::uint32_t n : {(1u << 22) + 1, (5u << 20) + 77})
        for (const std::uint32_t k : {16384u, 16385u, n / 100, n / 3, n - n / 9}) check_subset(n, k, random, false);
    check_subset((1u << 27) + 5, 70000, random, false);  // where a region has more bits
}

// Candidates where many words are refused, which small n never shows, and every length of a batch.
void check_candidates() {
    const SubsetKernels& kernels = simd() == Simd::portable ? subset_kernels_portable
                                   : simd() == Simd::avx2   ? subset_kernels_avx2
                                                            : subset_kernels_avx512;
    std::mt19937 random(6);
    for (const std::uint32_t n : {3u, 0x80000001u, 0xC0000000u, 0xFFFFFFFFu})
        for (std::size_t m = 0; m < 100; ++m) {
            Words words(m), want, got(m + 16);
            for (auto& w : words) w = static_cast<std::uint32_t>(random());
            if (m > 0) words[0] = 0;  // its product is 0: refused unless n divides 2^32
            const auto refused = static_cast<std::uint32_t>((std::uint64_t{1} << 32) % n);
            for (const std::uint32_t w : words) {
                const std::uint64_t product = std::uint64_t{w} * n;
                if (static_cast<std::uint32_t>(product) >= refused)
                    want.push_back(static_cast<std::uint32_t>(product >> 32));
            }
            got.resize(kernels.candidates(words.data(), m, n, refused, got.data()));
            if (got != want) fail("candidates, n = " + std::to_string(n) + ", m = " + std::to_string(m));
        }
}

void check_crc() {
    const std::uint8_t digits[] = {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
    if (crc32c(digits, 9) != 0xE3069283u || crc32c(digits, 0) != 0) fail("crc32c, check value");
    std::mt19937 random(4);
    std::vector<std::uint8_t> data(30000);
    for (auto& byte : data) byte = static_cast<std::uint8_t>(random());
    for (std::size_t size = 0; size <= data.size(); size += size < 1600 ? 1 : 997)
        for (const std::size_t from : {0, 1, 3}) {
            if (from > size) continue;
            const std::vector<std::uint8_t> part(data.begin() + static_cast<std::ptrdiff_t>(from),
                                                 data.begin() + static_cast<std::ptrdiff_t>(size));
            std::uint32_t want = 0xFFFFFFFFu;
            for (const std::uint8_t byte : part) {
                want ^= byte;
                for (int bit = 0; bit < 8; ++bit) want = (want >> 1) ^ ((want & 1) ? 0x82F63B78u : 0u);
            }
            if (crc32c(part.data(), part.size()) != ~want) fail("crc32c, size = " + std::to_string(part.size()));
        }
}

}  // namespace

int main() {
    check_known_answers();
    for (const Simd level : {Simd::portable, Simd::avx2, Simd::avx512}) {
        if (set_simd(level) != level) continue;  // not on this processor
        check_words();
        check_subsets();
        check_candidates();
        check_crc();
    }
    std::puts("random: ok");
    return 0;
}
