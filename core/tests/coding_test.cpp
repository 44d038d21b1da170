// The entropy coder and index coding: exact steps, equal bytes at every SIMD level, and bytes that others have touched.
// Every buffer has exactly the size that the headers ask for, so that the sanitisers see whatever goes beyond.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "check.hpp"
#include "dispatch.hpp"
#include "indices.hpp"
#include "integers.hpp"
#include "packing.hpp"
#include "rans_lanes.hpp"

using namespace gradwire;

namespace {

using Bytes = std::vector<std::uint8_t>;
using Numbers = std::vector<std::uint32_t>;

const Simd levels[] = {Simd::portable, Simd::avx2, Simd::avx512};

template <class T>
std::unique_ptr<T[]> exactly(std::size_t size) {
    return std::unique_ptr<T[]>(new T[size]);
}

Bytes encode(const Numbers& v) {
    Bytes section;
    for (std::size_t begin = 0; begin < v.size(); begin += block_length) {
        const std::size_t m = std::min(block_length, v.size() - begin);
        const auto tokens = exactly<std::uint8_t>(m);
        const auto extra = exactly<std::uint8_t>(extra_bound(m));
        const auto stack = exactly<std::uint16_t>(m + stack_slack);
        TokenWriter writer(tokens.get(), extra.get());
        const std::size_t half = m / 2;  // in two pieces, as producers may
        writer.put(v.data() + begin, half);
        writer.put(v.data() + begin + half, m - half);
        const TokenBlock block = writer.finish();
        const std::size_t bound = block_bound(m, block.extra_bits);
        const auto out = exactly<std::uint8_t>(bound);
        const std::size_t size = encode_block(block, stack.get(), out.get());
        CHECK(size <= bound);
        section.insert(section.end(), out.get(), out.get() + size);
    }
    return section;
}

Numbers decode(const Bytes& section, std::size_t m, std::size_t* used) {
    const auto data = exactly<std::uint8_t>(section.size());
    std::copy(section.begin(), section.end(), data.get());
    ByteReader reader(data.get(), section.size());
    const auto v = exactly<std::uint32_t>(m);
    for (std::size_t begin = 0; begin < m; begin += block_length) {
        const Block block = read_block(reader, std::min(block_length, m - begin));
        const auto tokens = exactly<std::uint8_t>(block.size);
        decode_numbers(block, tokens.get(), v.get() + begin);
    }
    *used = section.size() - reader.left();
    return Numbers(v.get(), v.get() + m);
}

Bytes encode_index_list(const Numbers& indices, std::uint32_t n) {
    const std::size_t m = std::min(indices.size(), block_length);
    const auto tokens = exactly<std::uint8_t>(m);
    const auto extra = exactly<std::uint8_t>(extra_bound(m));
    const auto stack = exactly<std::uint16_t>(m + stack_slack);
    const auto block = exactly<std::uint8_t>(block_bound(m, 29 * m));
    const std::size_t bound = indices_bound(indices.size(), n);
    const auto out = exactly<std::uint8_t>(bound);
    const std::size_t size = encode_indices(indices.data(), indices.size(), n,
                                            {tokens.get(), extra.get(), stack.get(), block.get()}, out.get());
    CHECK(size <= bound);
    return Bytes(out.get(), out.get() + size);
}

Numbers decode_index_list(const Bytes& section, std::uint32_t n, std::size_t k, std::size_t* used) {
    const auto data = exactly<std::uint8_t>(section.size());
    std::copy(section.begin(), section.end(), data.get());
    ByteReader reader(data.get(), section.size());
    const auto tokens = exactly<std::uint8_t>(std::min(k, block_length));
    const auto indices = exactly<std::uint32_t>(k);
    decode_indices(reader, n, k, tokens.get(), indices.get());
    *used = section.size() - reader.left();
    return Numbers(indices.get(), indices.get() + k);
}

Numbers numbers(Random& random, std::size_t m, unsigned shape) {
    Numbers v(m);
    for (auto& x : v) {
        const double u = 1 - random.uniform();
        switch (shape) {
            case 0: x = static_cast<std::uint32_t>(-std::log(u) / 0.5); break;
            case 1: x = static_cast<std::uint32_t>(-std::log(u) * 5); break;
            case 2: x = static_cast<std::uint32_t>(1 / u) & 0xFFFFF; break;
            case 3: x = static_cast<std::uint32_t>(random.word()); break;
            case 4: x = static_cast<std::uint32_t>(random.word() >> (32 + random.below(32))); break;
            case 5: x = 7; break;
            case 6: x = random.below(64) == 0; break;
            case 7: x = random.below(2) != 0 ? 0xFFFFFFFF : 0; break;
            default: x = static_cast<std::uint32_t>(random.below(60000)); break;
        }
    }
    return v;
}
constexpr unsigned shapes = 9;

// Dividing the state by a frequency is exact, whatever the way: against the division itself.
void test_steps() {
    Random random{1};
    for (std::uint32_t f = 1; f < scale; ++f) {
        Frequencies frequencies;
        frequencies.of[0] = static_cast<std::uint16_t>(f);
        frequencies.of[1] = static_cast<std::uint16_t>(scale - f);
        frequencies.top = 1;
        const EncodeTable table = make_encode_table(frequencies);
        const auto token = static_cast<std::uint8_t>(f & 1);
        const std::uint32_t mine = frequencies.of[token];
        const std::uint32_t start = token == 0 ? 0 : f;

        // Multiples of the frequency and what lies before them: the largest ones, and any; then states that give a word,
        // and are such multiples without it.
        std::uint32_t states[64];
        std::uint16_t words[64];
        std::size_t word_count = 0;
        std::uint32_t wanted[64];
        const std::uint64_t limit = std::uint64_t{mine} << 20;
        for (unsigned lane = 0; lane < 64; ++lane) {
            const std::uint64_t multiple = lane < 24   ? limit - std::uint64_t{mine} * (lane / 2)
                                           : lane < 40 ? std::uint64_t{mine} * random.below(1u << 20)
                                                       : std::uint64_t{mine} * (16 + random.below(0xFFFF / mine - 15)) << 16;
            const std::uint64_t x = multiple - (lane & 1);
            states[lane] = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(x, lowest_state, 0xFFFFFFFF));
        }
        for (unsigned lane = 64; lane-- > 0;) {
            std::uint32_t x = states[lane];
            if (x >= limit) {
                words[word_count++] = static_cast<std::uint16_t>(x);
                x >>= 16;
            }
            wanted[lane] = (x / mine << scale_log2) + x % mine + start;
        }
        const auto check = [&](EncodeGroups encode_groups, unsigned lanes) {
            const Bytes tokens(64, token);
            std::uint32_t x[64];
            std::copy(states, states + 64, x);
            std::uint16_t stack[64 + stack_slack];
            std::uint16_t* top = stack;
            for (unsigned lane = 64; lane > 0; lane -= lanes)
                top = encode_groups(tokens.data(), 1, table, x + lane - lanes, top, tokens.data());
            CHECK(static_cast<std::size_t>(top - stack) == word_count);
            CHECK(std::equal(stack, top, words));
            CHECK(std::equal(x, x + 64, wanted));
        };
        std::uint32_t x[64];
        std::uint16_t stack[65];
        std::uint16_t* top = stack;
        std::copy(states, states + 64, x);
        for (unsigned lane = 64; lane-- > 0;) top = encode_step(x[lane], table.step[token], top);
        CHECK(std::equal(x, x + 64, wanted) && std::equal(stack, top, words));
#if defined(__x86_64__)
        set_simd(Simd::avx512);
        for (const unsigned lanes : {16u, 32u, 64u}) {
            if (simd() >= Simd::avx2) check(encode_groups_avx2(lanes), lanes);
            if (simd() >= Simd::avx512) check(encode_groups_avx512(lanes), lanes);
        }
#endif
    }
}

void test_frequencies() {
    Random random{2};
    for (unsigned round = 0; round < 3000; ++round) {
        TokenCounts counts{};
        const auto used = static_cast<unsigned>(1 + random.below(token_limit));
        for (unsigned i = 0; i < used; ++i)
            counts[random.below(token_limit)] += static_cast<std::uint32_t>(1 + (random.below(4096) >> random.below(13)));
        const Frequencies frequencies = normalise(counts);
        std::uint32_t sum = 0;
        for (unsigned s = 0; s < token_limit; ++s) {
            CHECK((counts[s] != 0) == (frequencies.of[s] != 0));
            sum += frequencies.of[s];
        }
        CHECK(sum == scale && frequencies.of[frequencies.top] != 0);
        const auto out = exactly<std::uint8_t>(frequencies_bound);
        const std::uint8_t* end = write_frequencies(frequencies, out.get());
        ByteReader reader(out.get(), static_cast<std::size_t>(end - out.get()));
        const Frequencies back = read_frequencies(reader);
        CHECK(back.of == frequencies.of && back.top == frequencies.top && reader.left() == 0);
    }
}

void test_counts() {
    Random random{3};
    for (const unsigned limit : {1u, 2u, 12u, 13u, 35u, 36u, 37u, 140u}) {
        for (const std::size_t m : {0u, 1u, 31u, 64u, 65u, 16319u, 16321u, 40000u}) {
            const auto tokens = exactly<std::uint8_t>(m);
            TokenCounts wanted{};
            for (std::size_t j = 0; j < m; ++j) {
                tokens[j] = static_cast<std::uint8_t>(random.below(8) < 7 ? limit - 1 : random.below(limit));
                ++wanted[tokens[j]];
            }
            for (const Simd level : levels) {
                set_simd(level);
                CHECK(count_tokens(tokens.get(), m) == wanted);
            }
        }
    }
}

void test_packing() {
    Random random{4};
    for (unsigned width = 0; width < 32; ++width) {
        for (const std::size_t count : {0u, 1u, 7u, 8u, 9u, 15u, 16u, 17u, 23u, 64u, 71u, 200u}) {
            const auto values = exactly<std::uint32_t>(count);
            const auto back = exactly<std::uint32_t>(count);
            for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::uint32_t>(random.word());
            const std::size_t size = packed_size(count, width);
            const auto out = exactly<std::uint8_t>(size);
            pack(values.get(), count, width, out.get());
            CHECK(unpack(out.get(), count, width, back.get()));
            for (std::size_t i = 0; i < count; ++i) CHECK(back[i] == (values[i] & ((1u << width) - 1)));
            if (count * width % 8 != 0) {
                out[size - 1] |= 0x80;
                CHECK(!unpack(out.get(), count, width, back.get()));
            }
        }
    }
}

void test_integers() {
    Random random{5};
    std::vector<std::size_t> sizes{0, 1, 2, 3, 15, 16, 17, 63, 64, 65, 127, 1000, 4097, 30000, 70001};
    for (unsigned shape = 0; shape < shapes; ++shape) {
        if (shape == 0) sizes.push_back(block_length + 1);
        for (const std::size_t m : sizes) {
            const Numbers v = numbers(random, m, shape);
            set_simd(Simd::portable);
            const Bytes section = encode(v);
            for (const Simd level : levels) {
                set_simd(level);
                CHECK(encode(v) == section);
                Bytes more = section;
                more.push_back(0xA5);
                std::size_t used = 0;
                CHECK(decode(more, m, &used) == v && used == section.size());
            }
        }
        if (shape == 0) sizes.pop_back();
    }
}

void test_indices() {
    Random random{6};
    for (const std::uint32_t n : {1u, 2u, 9u, 1000u, 60000u, 0xFFFFFFFFu}) {
        for (std::size_t k : {1u, 2u, 8u, 511u, 512u, 513u, 20000u}) {
            k = std::min<std::size_t>(k, n);
            Numbers indices;
            const std::uint32_t reach = random.below(2) == 0 ? n : std::min<std::uint32_t>(n, static_cast<std::uint32_t>(2 * k));
            while (indices.size() < k) {  // a few too few at a time, until there are k different ones
                while (indices.size() < k) indices.push_back(n - 1 - static_cast<std::uint32_t>(random.below(reach)));
                std::sort(indices.begin(), indices.end());
                indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
            }
            CHECK(indices_are_valid(indices.data(), k, n));
            CHECK(!indices_are_valid(indices.data(), k, indices.back()));
            set_simd(Simd::portable);
            const Bytes section = encode_index_list(indices, n);
            for (const Simd level : levels) {
                set_simd(level);
                CHECK(encode_index_list(indices, n) == section);
                Bytes more = section;
                more.push_back(0xA5);
                std::size_t used = 0;
                CHECK(decode_index_list(more, n, k, &used) == indices && used == section.size());
            }
        }
    }
}

// What hostile bytes may do: nothing but raise, or give numbers.
template <class Decode>
void attack(Random& random, const Bytes& section, Decode&& decode_it, unsigned rounds) {
    const auto raises = [&](const Bytes& bytes) {
        try {
            decode_it(bytes);
            return false;
        } catch (const MessageError&) {
            return true;
        }
    };
    for (std::size_t size = 0; size < section.size(); size += 1 + section.size() / 300)
        CHECK(raises(Bytes(section.begin(), section.begin() + static_cast<std::ptrdiff_t>(size))));
    for (unsigned round = 0; round < rounds; ++round) {
        set_simd(levels[round % 3]);
        Bytes bytes = section;
        // The front, where the headers are, more than its share.
        const std::size_t front = std::min<std::size_t>(bytes.size(), 40);
        for (std::uint64_t edits = 1 + random.below(4); edits > 0; --edits) {
            const std::size_t at = random.below(random.below(2) == 0 ? front : bytes.size());
            switch (random.below(4)) {
                case 0: bytes[at] ^= static_cast<std::uint8_t>(1u << random.below(8)); break;
                case 1: bytes[at] = static_cast<std::uint8_t>(random.word()); break;
                case 2: bytes[at] = random.below(2) == 0 ? 0 : 0xFF; break;
                default: bytes.resize(bytes.size() - random.below(std::min<std::size_t>(bytes.size(), 8))); break;
            }
            if (at >= bytes.size()) break;
        }
        raises(bytes);
    }
}

void test_hostile() {
    Random random{7};
    for (unsigned shape = 0; shape < shapes; ++shape) {
        for (const std::size_t m : {5u, 200u, 3000u, 9000u}) {
            const Numbers v = numbers(random, m, shape);
            attack(random, encode(v), [&](const Bytes& bytes) {
                std::size_t used;
                CHECK(decode(bytes, m, &used).size() == m && used <= bytes.size());
            }, 600);
        }
    }
    for (const std::size_t k : {3u, 300u, 600u, 5000u}) {
        const std::uint32_t n = 100000;
        for (const std::size_t step : {1u, 19u}) {
            Numbers indices;
            for (std::uint32_t i = 0; indices.size() < k; i += static_cast<std::uint32_t>(1 + random.below(step)))
                indices.push_back(i);
            attack(random, encode_index_list(indices, n), [&](const Bytes& bytes) {
                std::size_t used;
                const Numbers back = decode_index_list(bytes, n, k, &used);
                CHECK(back.size() == k && indices_are_valid(back.data(), k, n) && used <= bytes.size());
            }, 1500);
        }
    }
    // No bytes that anybody has encoded.
    for (unsigned round = 0; round < 20000; ++round) {
        set_simd(levels[round % 3]);
        Bytes bytes(random.below(80));
        for (auto& b : bytes) b = static_cast<std::uint8_t>(random.word() >> random.below(8));
        if (!bytes.empty() && round % 2 == 0) bytes[0] = static_cast<std::uint8_t>(random.below(8));
        std::size_t used;
        try {
            decode(bytes, 1 + random.below(100), &used);
        } catch (const MessageError&) {
        }
        try {
            const std::size_t k = 1 + random.below(100);
            const Numbers back = decode_index_list(bytes, 1000, k, &used);
            CHECK(indices_are_valid(back.data(), k, 1000));
        } catch (const MessageError&) {
        }
    }
}

}  // namespace

int main() {
    test_steps();
    test_frequencies();
    test_counts();
    test_packing();
    test_integers();
    test_indices();
    test_hostile();
    std::puts("coding: ok");
    return 0;
}
