// Spherical Compression: the same points and gains at every SIMD level, every block within α, codes that come back, and
// bytes that others have touched. Buffers have exactly the sizes that the headers ask for.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "check.hpp"
#include "dispatch.hpp"
#include "spherical_code.hpp"
#include "spherical_rice.hpp"

using namespace gradwire;

namespace {

const Simd levels[] = {Simd::portable, Simd::avx2, Simd::avx512};

template <class T>
std::unique_ptr<T[]> exactly(std::size_t size) {
    return std::unique_ptr<T[]>(new T[size]);
}

struct Found {
    std::vector<std::uint64_t> index;
    std::vector<float> gain;
    bool operator==(const Found&) const = default;
};

// In calls of `chunk` blocks.
Found found(const std::vector<float>& x, std::size_t m, double alpha, std::uint64_t limit, std::size_t chunk) {
    const SphericalSearch search{x.data(), {x.size(), m}, alpha, 77, limit};
    const std::size_t most = search.split.most();
    const auto points = exactly<float>(point_rows(most) * spherical::tile), units = exactly<float>(chunk * most);
    const auto energies = exactly<double>(chunk);
    const auto active = exactly<std::uint32_t>(chunk);
    Found result{std::vector<std::uint64_t>(m), std::vector<float>(m)};
    for (std::size_t first = 0; first < m; first += chunk)
        spherical_search(search, first, std::min(chunk, m - first),
                         {points.get(), units.get(), energies.get(), active.get()}, result.index.data() + first,
                         result.gain.data() + first);
    return result;
}

// As a vector's blocks are kept, in chunks that are put from the last to the first.
FoundBlocks kept(const BlockSplit& split, const Found& f, std::size_t chunk) {
    FoundBlocks found(split, chunk);
    for (std::size_t c = found.chunks(); c-- > 0;)
        found.put(c, f.index.data() + found.first(c), f.gain.data() + found.first(c));
    return found;
}

Found read_back(const FoundBlocks& found) {
    Found f;
    for (FoundReader blocks(found, true); blocks.next();) {
        CHECK(blocks.first() == f.gain.size());
        f.index.insert(f.index.end(), blocks.index(), blocks.index() + blocks.count());
        f.gain.insert(f.gain.end(), blocks.gain(), blocks.gain() + blocks.count());
    }
    std::vector<float> gain;
    for (FoundReader blocks(found, false); blocks.next();)
        gain.insert(gain.end(), blocks.gain(), blocks.gain() + blocks.count());
    CHECK(gain == f.gain);
    return f;
}

std::vector<std::uint8_t> encoded(const std::vector<float>& x, const FoundBlocks& found, bool sectioned,
                                  std::vector<std::uint16_t>& norms) {
    auto [head, there, bound, norm_bits] = choose_head(found);
    std::vector<std::uint32_t> numbers(there + 1);
    head.sectioned = sectioned;
    Norms reader(found, head);  // in two goes
    const std::size_t half = reader.read(numbers.data(), there / 2);
    CHECK(half == there / 2);
    CHECK(reader.read(numbers.data() + half, there + 1 - half) == there - half);
    norms.assign(numbers.begin(), numbers.end() - 1);
    const auto bits = exactly<std::uint8_t>(bound);
    const auto write = [&] { return write_bits(x.data(), found, head, bits.get()); };
    // What the norms take outside a section is what they are said to.
    head.sectioned = true;
    const std::uint64_t others = write();
    head.sectioned = false;
    CHECK(write() == others + norm_bits);
    head.sectioned = sectioned;
    const auto size = static_cast<std::size_t>((write() + 7) / 8);
    CHECK(size + write_slack <= bound);
    std::vector<std::uint8_t> data(2);
    CHECK(write_head(head, data.data()) == data.data() + 2);
    data.insert(data.end(), bits.get(), bits.get() + size);
    return data;
}

struct Decoded {
    Found found;
    std::vector<float> raw;
    std::size_t left = 0;
};

// Head and bits, from a buffer that ends where they do, `chunk` blocks at a time; `zero` tells which blocks are of zeros.
Decoded decoded(const std::vector<std::uint8_t>& data, const BlockSplit& split, const std::vector<float>& zero,
                const std::vector<std::uint16_t>& norms, std::size_t chunk) {
    const auto copy = exactly<std::uint8_t>(data.size());
    std::copy(data.begin(), data.end(), copy.get());
    ByteReader reader(copy.get(), data.size());
    Decoded result{{std::vector<std::uint64_t>(split.m), zero}, {}, 0};
    BlockReader blocks(reader, split, read_head(reader), norms.data());
    for (std::size_t first = 0; first < split.m; first += chunk)
        blocks.read(std::min(chunk, split.m - first), result.found.index.data() + first,
                    result.found.gain.data() + first, result.raw);
    blocks.finish();
    result.left = reader.left();
    return result;
}

// Of all blocks, in calls of `chunk`.
std::vector<float> values_of(const Decoded& d, const BlockSplit& split, std::uint64_t seed, std::size_t chunk) {
    const auto scratch = exactly<float>(point_rows(split.most()) * spherical::tile);
    std::vector<float> out(split.n);
    const float* raw = d.raw.data();
    for (std::size_t first = 0; first < split.m; first += chunk) {
        const std::size_t count = std::min(chunk, split.m - first);
        spherical_values(split, seed, first, count, d.found.index.data() + first, d.found.gain.data() + first, raw,
                         scratch.get(), out.data() + split.begin(first));
        for (std::size_t b = first; b < first + count; ++b)
            if (d.found.gain[b] == spherical::raw_gain) raw += split.length(b);
    }
    CHECK(raw == d.raw.data() + d.raw.size());
    return out;
}

void check_vector(const std::vector<float>& x, std::size_t m, double alpha, Random& random) {
    const BlockSplit split{x.size(), m};
    set_simd(Simd::portable);
    const Found f = found(x, m, alpha, 2048, m);
    for (const Simd level : levels) {
        set_simd(level);
        CHECK(found(x, m, alpha, 2048, m) == f);
        CHECK(found(x, m, alpha, 2048, 1 + random.below(m)) == f);
    }
    const FoundBlocks blocks = kept(split, f, 1 + random.below(m));
    CHECK(read_back(blocks) == f);
    std::vector<float> expected;
    for (const bool sectioned : {false, true}) {
        std::vector<std::uint16_t> norms;
        const auto data = encoded(x, blocks, sectioned, norms);
        const Decoded back = decoded(data, split, f.gain, norms, 1 + random.below(m));
        CHECK(back.found == f && back.left == 0);
        for (const Simd level : levels) {
            set_simd(level);
            const auto out = values_of(back, split, 77, 1 + random.below(m));
            if (expected.empty()) expected = out;
            CHECK(out == expected);
        }
        for (int trial = 0; trial < 200; ++trial) {
            auto touched = data;
            if (trial % 2) touched.resize(random.below(touched.size() + 1));
            else touched[random.below(touched.size())] ^= static_cast<std::uint8_t>(1 + random.below(255));
            if (touched.size() >= 2 && !sectioned) touched[0] &= static_cast<std::uint8_t>(~0x20);
            auto numbers = norms;
            if (sectioned && !numbers.empty())
                numbers[random.below(numbers.size())] = static_cast<std::uint16_t>(random.below(norm_limit));
            numbers.resize(m);
            try {
                for (const float value : values_of(decoded(touched, split, f.gain, numbers, m), split, 5, m))
                    CHECK(std::isfinite(value));
            } catch (const MessageError&) {
            }
        }
    }
    for (std::size_t b = 0; b < m; ++b) {
        double energy = 0, error = 0;
        for (std::size_t i = split.begin(b); i < split.begin(b) + split.length(b); ++i) {
            energy += double{x[i]} * double{x[i]};
            error += (double{x[i]} - double{expected[i]}) * (double{x[i]} - double{expected[i]});
        }
        CHECK(error <= alpha * energy);
    }
}

void check_searches() {
    Random random{1};
    const std::size_t shapes[][2] = {{1, 1}, {5, 5}, {7, 2}, {64, 16}, {1000, 200}, {1023, 256}, {1021, 4}, {256, 1}};
    for (const auto& [n, m] : shapes)
        for (int family = 0; family < 5; ++family) {
            std::vector<float> x(n);
            for (std::size_t i = 0; i < n; ++i) {
                x[i] = random.about_normal();
                if (family == 1) x[i] *= random.below(8) == 0;
                if (family == 2) x[i] *= 1e-44f;
                if (family == 3) x[i] = std::copysign(3.4e38f, x[i]);
                if (family == 4) x[i] = std::ldexp(x[i], static_cast<int>(random.below(200)) - 120);
            }
            const std::size_t d = (n + m - 1) / m;
            check_vector(x, m, d <= 7 ? 0.3 : d <= 16 ? 0.6 : 0.98, random);
        }
}

// Any points and gains, those that a search does not find too.
void check_codes() {
    Random random{2};
    for (int trial = 0; trial < 400; ++trial) {
        const std::size_t m = 1 + random.below(60), n = 3 * m + random.below(m);
        std::vector<float> x(n);
        for (float& entry : x) entry = random.about_normal();
        Found f{std::vector<std::uint64_t>(m), std::vector<float>(m)};
        for (std::size_t b = 0; b < m; ++b) {
            const std::uint64_t kind = random.below(8);
            f.gain[b] = kind == 0   ? 0
                        : kind == 1 ? spherical::raw_gain
                                    : std::ldexp(1 + static_cast<float>(random.below(1u << 23) >> random.below(23) << 3) * 0x1p-26f,
                                                 static_cast<int>(random.below(trial % 2 ? 253 : 4)) - 126);
            if (f.gain[b] > 0) f.index[b] = random.word() >> (24 + random.below(40));
        }
        const BlockSplit split{n, m};
        const FoundBlocks blocks = kept(split, f, 1 + random.below(m));
        CHECK(read_back(blocks) == f);
        for (const bool sectioned : {false, true}) {
            std::vector<std::uint16_t> norms;
            const auto data = encoded(x, blocks, sectioned, norms);
            const Decoded back = decoded(data, split, f.gain, norms, 1 + random.below(m));
            CHECK(back.found == f && back.left == 0);
        }
    }
}

// Near the message's size, whatever the blocks' length; a block of one entry is the worst.
void check_sizes() {
    Random random{4};
    for (const std::size_t d : {1, 2, 4}) {
        const std::size_t m = 20000;
        std::vector<float> x(m * d);
        for (float& entry : x) entry = random.about_normal();
        const BlockSplit split{x.size(), m};
        const FoundBlocks blocks = kept(split, found(x, m, 0.25, 2048, 5000), 16384);
        std::vector<std::uint16_t> norms;
        const std::size_t message = encoded(x, blocks, false, norms).size();
        CHECK(blocks.bytes() < 4 * x.size() * 3 / 10);
        CHECK(blocks.bytes() < 2 * message);
    }
}

// Against the bits that each parameter takes, added up number by number.
void check_parameters() {
    Random random{3};
    for (int trial = 0; trial < 300; ++trial) {
        const unsigned most = 1 + static_cast<unsigned>(random.below(40));
        std::vector<std::uint64_t> numbers(1 + random.below(50));
        for (auto& v : numbers) v = random.word() >> (64 - most + random.below(trial % 3 == 0 ? most : 1));
        RiceCosts costs(104);
        for (const std::uint64_t v : numbers) costs.add(v);
        unsigned best = 0;
        std::uint64_t least = ~std::uint64_t{0};
        for (unsigned r = 0; r < 32; ++r) {
            std::uint64_t bits = 0;
            for (const std::uint64_t v : numbers) bits += v >> r < 64 ? (v >> r) + 1 + r : 104;
            if (bits < least) best = r;
            least = std::min(least, bits);
        }
        CHECK(costs.best() == best);
    }
}

void check_split() {
    for (std::size_t n = 1; n < 60; ++n)
        for (std::size_t m = 1; m <= n; ++m) {
            const BlockSplit split{n, m};
            std::size_t next = 0;
            for (std::size_t b = 0; b < m; ++b) {
                CHECK(split.begin(b) == next);
                CHECK(split.length(b) == split.most() || split.length(b) + 1 == split.most());
                next += split.length(b);
            }
            CHECK(next == n);
        }
}

}  // namespace

int main() {
    check_split();
    check_searches();
    check_codes();
    check_sizes();
    check_parameters();
    std::puts("spherical: all checks hold");
}
