// What goes over whole vectors by several threads: the same for every number of them and every instruction set.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "check.hpp"
#include "checksum.hpp"
#include "crc32c.hpp"
#include "dispatch.hpp"
#include "natural.hpp"
#include "philox.hpp"
#include "powers.hpp"
#include "signs.hpp"
#include "sums.hpp"
#include "threads.hpp"
#include "values.hpp"

using namespace gradwire;

namespace {

using Floats = std::vector<float>;
using Bytes = std::vector<std::uint8_t>;

Floats vector_of(std::size_t n) {
    Random random{n};
    Floats x(n);
    for (float& entry : x) entry = random.about_normal();
    return x;
}

// The order of the format's 4.6, term by term.
template <class Term>
double ordered(std::size_t n, const Term& term) {
    double total = 0;
    for (std::size_t begin = 0; begin < n; begin += sum_block) {
        double s[16] = {};
        for (std::size_t i = begin; i < std::min(n, begin + sum_block); ++i) s[i % 16] += term(i);
        for (int half = 8; half > 0; half /= 2)
            for (int j = 0; j < half; ++j) s[j] += s[j + half];
        total += s[0];
    }
    return total;
}

void test_sums() {
    constexpr std::size_t n = 2 * sum_block + 12'345;
    const Floats x = vector_of(n);
    const auto at = [&](std::size_t i) { return static_cast<double>(x[i]); };
    const double squares = ordered(n, [&](std::size_t i) { return at(i) * at(i); });
    const double magnitudes = ordered(n, [&](std::size_t i) { return std::fabs(at(i)); });
    float largest = 0;
    for (const float entry : x) largest = std::max(largest, std::fabs(entry));
    const auto level = [&](std::size_t i) { return static_cast<double>(std::nearbyint(x[i] * 3.0f)); };
    const double products = ordered(n, [&](std::size_t i) { return at(i) * level(i); });
    const double level_squares = ordered(n, [&](std::size_t i) { return level(i) * level(i); });
    for (const unsigned count : {1u, 3u}) {
        set_threads(count);
        CHECK(sum_squares(x.data(), n) == squares);
        CHECK(sum_abs(x.data(), n) == magnitudes);
        CHECK(largest_magnitude(x.data(), n) == largest);
        const Extent extent = gradwire::extent(x.data(), n);
        CHECK(extent.largest == largest && extent.squares == squares);
        const LevelSums sums = level_sums(x.data(), n, 3.0f);
        CHECK(sums.products == products && sums.squares == level_squares);
        for (const std::size_t bucket : {std::size_t{7}, std::size_t{1000}, sum_block + 7, n}) {
            std::vector<double> of(parts_of(n, bucket));
            bucket_squares(x.data(), n, bucket, of.data());
            for (std::size_t b = 0; b < of.size(); b += of.size() / 3 + 1) {
                const std::size_t begin = b * bucket, size = std::min(bucket, n - begin);
                CHECK(of[b] == ordered(size, [&](std::size_t i) { return at(begin + i) * at(begin + i); }));
            }
        }
    }
    Floats bad = x;
    for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        bad[sum_block + 5] = value;
        CHECK(!std::isfinite(largest_magnitude(bad.data(), n)) && !std::isfinite(gradwire::extent(bad.data(), n).largest));
    }
    CHECK(sum_squares(nullptr, 0) == 0 && largest_magnitude(nullptr, 0) == 0);
}

void test_checksum() {
    Random random{7};
    Bytes data(3'000'001);
    for (auto& byte : data) byte = static_cast<std::uint8_t>(random.word());
    const std::size_t cuts[] = {0, 0, 1, 5, 5, 900'000, 2'999'998, data.size()};
    for (const unsigned count : {1u, 3u}) {
        set_threads(count);
        for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1'048'577}, data.size()})
            CHECK(checksum(data.data(), size) == crc32c(data.data(), size));
        std::vector<Piece> pieces;
        for (std::size_t i = 0; i + 1 < std::size(cuts); ++i) pieces.push_back({data.data() + cuts[i], cuts[i + 1] - cuts[i]});
        Bytes out(data.size());
        CHECK(joined_checksum(pieces.data(), pieces.size(), out.data()) == crc32c(data.data(), data.size()));
        CHECK(out == data);
    }
}

void test_signs() {
    for (const std::size_t n : {0, 1, 7, 8, 9, 15, 16, 17, 64, 1003}) {
        Floats x = vector_of(n);
        for (std::size_t i = 0; i < n; i += 5) x[i] = i % 2 == 0 ? -0.0f : -std::numeric_limits<float>::denorm_min();
        Bytes bits(parts_of(n, 8), 0xAA);
        sign_kernels().pack(x.data(), n, bits.data());
        for (std::size_t i = 0; i < 8 * bits.size(); ++i)
            CHECK((bits[i / 8] >> (i % 8) & 1) == (i < n && x[i] < 0 ? 1 : 0));
        Floats out(n, 1.0f);
        sign_kernels().add(out.data(), n, bits.data(), 0.75f);
        for (std::size_t i = 0; i < n; ++i) CHECK(out[i] == (x[i] < 0 ? 0.25f : 1.75f));
    }
}

// Rounds to powers of two, all at once.
std::vector<std::uint32_t> codes_of(const Floats& x, const PowerQuantiser& quantiser) {
    std::vector<std::uint32_t> words(x.size()), codes(x.size());
    Floats quotients(x);
    for (float& entry : quotients) entry /= quantiser.divisor;
    philox_words(quantiser.seed, quantiser.stream, 0, x.size(), words.data());
    natural_kernels_portable.round(quotients.data(), x.size(), quantiser.lowest, words.data(), codes.data());
    return codes;
}

void test_powers() {
    const std::size_t n = 150'001;
    Floats flat(n, -1.0f), zeros(n, 0.0f), spiked = vector_of(n), tiny = vector_of(n), never_up(n, 0.5f);
    spiked[n - 2] = 1e20f;
    never_up[n / 2] = 1.0f;  // powers of two are left as they are: the most that rounding can give is not seen
    for (float& entry : tiny) entry *= 1e-42f;
    for (const Floats& x : {vector_of(n), flat, zeros, spiked, tiny, never_up})
        for (const PowerQuantiser& quantiser : {PowerQuantiser{1.0f, -149, 3, 0}, PowerQuantiser{700.0f, -15, 4, 1}}) {
            const auto codes = codes_of(x, quantiser);
            const std::uint32_t top = *std::max_element(codes.begin(), codes.end()) >> 1;
            const float magnitude = value_kernels_portable.max_abs(x.data(), n);
            for (const unsigned count : {1u, 3u}) {
                set_threads(count);
                CHECK(largest_power(x.data(), n, quantiser, magnitude) == top);
            }
            Bytes tokens(n), wide(n), extra(extra_bound(n)), block(block_bound(n, 29 * std::uint64_t{n}));
            std::vector<std::uint16_t> stack(n + stack_slack);
            const LevelBlock made = encode_power_block(x.data(), 0, n, quantiser, top,
                                                       {tokens.data(), wide.data(), extra.data(), stack.data(), block.data()});
            ByteReader reader(block.data(), made.size);
            std::vector<std::uint32_t> levels(n);
            decode_numbers(read_block(reader, n), tokens.data(), levels.data());
            CHECK(reader.left() == 0);
            std::uint64_t nonzero = 0;
            for (std::size_t i = 0; i < n; ++i) {
                const std::uint32_t magnitude = codes[i] == 0 ? 0 : 1 + top - (codes[i] >> 1);  // of the level
                CHECK((levels[i] + 1) >> 1 == magnitude && (magnitude == 0 || (levels[i] & 1) == (codes[i] & 1)));
                nonzero += magnitude != 0;
            }
            CHECK(made.sums.nonzero == nonzero);
        }
}

}  // namespace

int main() {
    const Simd best = simd();
    for (const Simd level : {Simd::portable, Simd::avx2, Simd::avx512}) {
        if (level > best) break;
        set_simd(level);
        test_sums();
        test_checksum();
        test_signs();
        test_powers();
    }
}
