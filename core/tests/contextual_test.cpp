// Integers in context: exact steps for every frequency, equal bytes at every SIMD level, tables there and back, and
// bytes that others have touched. Every buffer has exactly the size that the headers ask for, so that the sanitisers see
// whatever goes beyond.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "check.hpp"
#include "contextual_lanes.hpp"
#include "dispatch.hpp"

using namespace gradwire;

namespace {

using Bytes = std::vector<std::uint8_t>;
using Numbers = std::vector<std::uint32_t>;
using Tables = std::vector<std::uint16_t>;
using Counts = std::vector<std::uint64_t>;

const Simd levels[] = {Simd::portable, Simd::avx2, Simd::avx512};

template <class T>
std::unique_ptr<T[]> exactly(std::size_t size) {
    return std::unique_ptr<T[]>(new T[size]);
}

template <class T, class U>
std::unique_ptr<T[]> copied(const U& values) {
    auto copy = exactly<T>(values.size());
    std::copy(values.begin(), values.end(), copy.get());
    return copy;
}

unsigned tables_in(const Tables& tables) { return static_cast<unsigned>(tables.size() / context_tokens); }

Bytes encode(const Numbers& v, const Bytes& contexts, const Tables& tables) {
    CHECK(tables_are_valid(tables.data(), tables_in(tables)));
    const auto table = std::make_unique<ContextEncodeTable>();
    const auto frequencies = copied<std::uint16_t>(tables);
    fill_encode_table(frequencies.get(), tables_in(tables), *table);
    Bytes section;
    for (std::size_t begin = 0; begin < v.size(); begin += block_length) {
        const std::size_t m = std::min(block_length, v.size() - begin);
        const auto numbers = exactly<std::uint32_t>(m);
        std::copy_n(v.begin() + static_cast<std::ptrdiff_t>(begin), m, numbers.get());
        const auto own = exactly<std::uint8_t>(m);
        std::copy_n(contexts.begin() + static_cast<std::ptrdiff_t>(begin), m, own.get());
        const auto symbols = exactly<std::uint16_t>(m);
        const auto extra = exactly<std::uint8_t>(context_extra_bound(m));
        const auto stack = exactly<std::uint16_t>(m + stack_slack);
        const auto out = exactly<std::uint8_t>(context_block_bound(m));
        const ContextScratch scratch{symbols.get(), extra.get(), stack.get()};
        ContextBlockWriter writer(*table, scratch);
        const std::size_t piece = begin == 0 ? m : 4096;  // the same block, whatever the pieces
        for (std::size_t j = 0; j < m; j += piece)
            if (!writer.put(numbers.get() + j, own.get() + j, std::min(piece, m - j))) return {};
        const std::size_t size = writer.finish(out.get());
        CHECK(size <= context_block_bound(m));
        section.insert(section.end(), out.get(), out.get() + size);
    }
    return section;
}

Numbers decode(const Bytes& section, const Bytes& contexts, const Tables& tables, std::size_t* used) {
    const auto data = copied<std::uint8_t>(section);
    const auto own = copied<std::uint8_t>(contexts);
    const auto frequencies = copied<std::uint16_t>(tables);
    const auto table = std::make_unique<ContextDecodeTable>();
    fill_decode_table(frequencies.get(), tables_in(tables), *table);
    ByteReader reader(data.get(), section.size());
    const std::size_t m = contexts.size();
    const auto v = exactly<std::uint32_t>(m);
    for (std::size_t begin = 0; begin < m; begin += block_length)
        decode_in_context(read_context_block(reader, std::min(block_length, m - begin)), own.get() + begin, *table,
                          v.get() + begin);
    *used = section.size() - reader.left();
    return Numbers(v.get(), v.get() + m);
}

Bytes random_contexts(Random& random, std::size_t m, unsigned tables) {
    Bytes contexts(m);
    for (auto& c : contexts) c = static_cast<std::uint8_t>(random.below(tables));
    return contexts;
}

// Numbers whose law depends on their context: narrow, wide, with outliers to the end of the range, all equal.
constexpr unsigned shapes = 6;
Numbers numbers(Random& random, const Bytes& contexts, unsigned shape) {
    Numbers v(contexts.size());
    for (std::size_t j = 0; j < v.size(); ++j) {
        const unsigned c = contexts[j];
        switch (shape) {
            case 0: v[j] = static_cast<std::uint32_t>(random.below(2 + c % 3)); break;
            case 1: v[j] = static_cast<std::uint32_t>(std::min(random.below(40 + c), random.below(40))); break;
            case 2: v[j] = static_cast<std::uint32_t>(random.word() >> (32 + random.below(32))); break;
            case 3: v[j] = random.below(500) == 0 ? ~static_cast<std::uint32_t>(random.below(9)) : c & 1; break;
            case 4: v[j] = 3 + c; break;
            default: v[j] = c % 2 == 0 ? 0 : static_cast<std::uint32_t>(random.below(1u << 20)); break;
        }
    }
    return v;
}

// The tables that the numbers' own counts make; `lost` of the tokens are left to the escape.
Tables own_tables(Random& random, const Numbers& v, const Bytes& contexts, unsigned tables, unsigned lost) {
    Counts counts(tables * context_tokens);
    const auto counter = std::make_unique<ContextCounter>();
    const std::size_t half = v.size() / 2;
    counter->add(v.data(), contexts.data(), half);
    counter->add(v.data() + half, contexts.data() + half, v.size() - half);
    counter->add_to(counts.data(), tables);
    Tables result(counts.size());
    for (unsigned c = 0; c < tables; ++c) {
        std::uint64_t* of = counts.data() + c * context_tokens;
        for (unsigned s = 0; s < token_limit; ++s) {
            if (of[s] == 0 || random.below(10) >= lost) continue;
            of[escape_token] += of[s];
            of[s] = 0;
        }
        normalise_in_context(of, result.data() + c * context_tokens);
    }
    return result;
}

// Every frequency from 1 to 4096, all states at the limits of the steps: SIMD and portable are the exact division.
void test_steps() {
    Random random{1};
    const auto table = std::make_unique<ContextEncodeTable>();
    for (unsigned f = 1; f <= scale; ++f) {
        Tables tables(2 * context_tokens);
        tables[1] = static_cast<std::uint16_t>(scale);  // a context that is not asked
        const auto before = static_cast<std::uint16_t>(random.below(scale - f + 1));
        std::uint16_t* of = tables.data() + context_tokens;
        of[2] = before;
        of[5] = static_cast<std::uint16_t>(f);
        of[7] = static_cast<std::uint16_t>(scale - f - before);
        fill_encode_table(tables.data(), 2, *table);
        std::uint16_t symbols[64];
        std::fill(symbols, symbols + 64, std::uint16_t{1 << 8 | 5});
        std::uint32_t states[64];
        for (unsigned lane = 0; lane < 64; ++lane) {
            const std::uint64_t limit = std::uint64_t{f} << 20;
            const std::uint64_t x = lane < 8 ? limit - 4 + lane : lane < 16 ? lowest_state + lane - 8
                                    : lane < 24 ? 0xFFFFFFFF - (lane - 16) : lowest_state + random.below(0xFFFF0000);
            states[lane] = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(x, lowest_state, 0xFFFFFFFF));
        }
        std::uint32_t wanted[64];
        std::vector<std::uint16_t> words;
        for (unsigned lane = 64; lane-- > 0;) {
            std::uint64_t x = states[lane];
            if (x >= std::uint64_t{f} << 20) {
                words.push_back(static_cast<std::uint16_t>(x));
                x >>= 16;
            }
            wanted[lane] = static_cast<std::uint32_t>((x / f << scale_log2) + x % f + before);
        }
        std::uint32_t x[64];
        std::uint16_t stack[64 + stack_slack];
        std::copy(states, states + 64, x);
        std::uint16_t* top = stack;
        for (unsigned lane = 64; lane-- > 0;) top = encode_step(x[lane], table->step[symbols[lane]], top);
        CHECK(std::equal(x, x + 64, wanted) && std::equal(words.begin(), words.end(), stack, top));
#if defined(__x86_64__)
        set_simd(Simd::avx512);
        const auto check = [&](EncodeContextGroups groups, unsigned lanes) {
            std::copy(states, states + 64, x);
            top = stack;
            for (unsigned lane = 64; lane > 0; lane -= lanes) top = groups(symbols, 1, *table, x + lane - lanes, top);
            CHECK(std::equal(x, x + 64, wanted) && std::equal(words.begin(), words.end(), stack, top));
        };
        for (const unsigned lanes : {16u, 32u, 64u}) {
            if (simd() >= Simd::avx2) check(encode_context_groups_avx2(lanes), lanes);
            if (simd() >= Simd::avx512) check(encode_context_groups_avx512(lanes), lanes);
        }
#endif
    }
}

void test_round_trips() {
    Random random{2};
    for (unsigned shape = 0; shape < shapes; ++shape) {
        for (const unsigned tables : {1u, 2u, 7u, 16u}) {
            for (const std::size_t m : {1u, 2u, 15u, 63u, 64u, 65u, 1000u, 4097u, 20000u, 70001u}) {
                const Bytes contexts = random_contexts(random, m, tables);
                const Numbers v = numbers(random, contexts, shape);
                const Tables own = own_tables(random, v, contexts, tables, m % 2 == 0 ? 0 : 3);
                set_simd(Simd::portable);
                const Bytes section = encode(v, contexts, own);
                for (const Simd level : levels) {
                    set_simd(level);
                    CHECK(encode(v, contexts, own) == section);
                    Bytes more = section;
                    more.push_back(0xA5);
                    std::size_t used = 0;
                    CHECK(decode(more, contexts, own, &used) == v && used == section.size());
                }
            }
        }
    }
    // Two blocks.
    const Bytes contexts = random_contexts(random, block_length + 1, 3);
    const Numbers v = numbers(random, contexts, 0);
    const Tables own = own_tables(random, v, contexts, 3, 0);
    std::size_t used = 0;
    const Bytes section = encode(v, contexts, own);
    CHECK(decode(section, contexts, own, &used) == v && used == section.size());
}

void test_numbers_without_a_code() {
    Tables tables(context_tokens);
    tables[0] = tables[40] = scale / 2;
    CHECK(!encode({0, 0, token_base(40)}, {0, 0, 0}, tables).empty());
    for (const std::uint32_t v : {1u, 31u, 32u, 0xFFFFFFFFu}) CHECK(encode({0, v, 0}, {0, 0, 0}, tables).empty());
    tables[0] -= 1;
    tables[escape_token] = 1;
    CHECK(!encode({0, 0xFFFFFFFFu, 0}, {0, 0, 0}, tables).empty());
}

void test_tables() {
    Random random{3};
    for (unsigned round = 0; round < 400; ++round) {
        Counts counts(most_contexts * context_tokens);
        const std::size_t m = std::size_t{1} << random.below(22);
        for (unsigned entries = 1 + static_cast<unsigned>(random.below(300)); entries > 0; --entries) {
            const std::size_t token = random.below(3) == 0 ? random.below(token_limit) : random.below(12);
            counts[random.below(most_contexts) * context_tokens + token] += 1 + random.below(m) * random.below(2);
        }
        const auto fitted = std::make_unique<FittedTables>();
        fit_tables(counts.data(), *fitted);
        const unsigned tables = 1u << fitted->bits;
        CHECK(tables_are_valid(fitted->frequencies, tables));
        const auto out = exactly<std::uint8_t>(tables_bound);
        const auto size = static_cast<std::size_t>(write_tables(*fitted, out.get()) - out.get());
        const auto exact = exactly<std::uint8_t>(size);
        std::copy(out.get(), out.get() + size, exact.get());
        ByteReader reader(exact.get(), size);
        Tables back(tables * context_tokens);
        read_tables(reader, tables, back.data());
        CHECK(reader.left() == 0 && std::equal(back.begin(), back.end(), fitted->frequencies));
        // What was counted has a code.
        for (unsigned i = 0; i < counts.size(); ++i) {
            const unsigned c = i / context_tokens >> (4 - fitted->bits);
            if (counts[i] != 0)
                CHECK(back[c * context_tokens + i % context_tokens] != 0 ||
                      back[c * context_tokens + escape_token] != 0);
        }
    }
}

template <class Read>
bool raises(Read&& read) {
    try {
        read();
        return false;
    } catch (const MessageError&) {
        return true;
    }
}

Bytes damaged(Random& random, Bytes bytes) {
    const std::size_t front = std::min<std::size_t>(bytes.size(), 40);  // where the headers are, more than its share
    for (std::uint64_t edits = 1 + random.below(4); edits > 0; --edits) {
        const std::size_t at = random.below(random.below(2) == 0 ? front : bytes.size());
        switch (random.below(4)) {
            case 0: bytes[at] ^= static_cast<std::uint8_t>(1u << random.below(8)); break;
            case 1: bytes[at] = static_cast<std::uint8_t>(random.word()); break;
            case 2: bytes[at] = random.below(2) == 0 ? 0 : 0xFF; break;
            default: bytes.resize(bytes.size() - random.below(std::min(front, bytes.size()))); return bytes;
        }
    }
    return bytes;
}

void test_hostile_sections() {
    Random random{4};
    std::size_t refused = 0, read = 0;
    for (unsigned shape = 0; shape < shapes; ++shape) {
        for (const std::size_t m : {5u, 200u, 3000u, 9000u}) {
            const Bytes contexts = random_contexts(random, m, 5);
            const Numbers v = numbers(random, contexts, shape);
            const Tables own = own_tables(random, v, contexts, 5, 2);
            const Bytes section = encode(v, contexts, own);
            std::size_t used;
            for (std::size_t size = 0; size < section.size(); size += 1 + section.size() / 200) {
                const Bytes front(section.begin(), section.begin() + static_cast<std::ptrdiff_t>(size));
                CHECK(raises([&] { decode(front, contexts, own, &used); }));
            }
            for (unsigned round = 0; round < 400; ++round) {
                set_simd(levels[round % 3]);
                const Bytes bytes = damaged(random, section);
                const bool bad = raises([&] {
                    CHECK(decode(bytes, contexts, own, &used).size() == m && used <= bytes.size());
                });
                ++(bad ? refused : read);
            }
            // Under other tables than those it was made with.
            const Tables other = own_tables(random, numbers(random, contexts, (shape + 1) % shapes), contexts, 5, 2);
            raises([&] { decode(section, contexts, other, &used); });
        }
    }
    CHECK(refused > 1000 && read > 10);
}

void test_hostile_tables() {
    Random random{5};
    for (unsigned round = 0; round < 40000; ++round) {
        Bytes bytes(random.below(120));
        for (auto& b : bytes) b = static_cast<std::uint8_t>(random.word() & random.word() >> random.below(8));
        const auto data = copied<std::uint8_t>(bytes);
        ByteReader reader(data.get(), bytes.size());
        const unsigned tables = 1u << random.below(5);
        Tables back(tables * context_tokens);
        if (!raises([&] { read_tables(reader, tables, back.data()); }))
            CHECK(tables_are_valid(back.data(), tables));
    }
}

// An escaped number whose own token has a frequency: the same bytes must not have two readings.
void test_escape_of_the_known_is_refused() {
    Tables with(context_tokens), without(context_tokens);
    without[0] = with[0] = 4000;
    without[escape_token] = with[escape_token] = 90;
    without[9] = with[5] = 6;  // the escape starts at 4006 in both
    const Numbers v{0, 5, 0};
    const Bytes contexts(3);
    const Bytes section = encode(v, contexts, without);
    std::size_t used;
    CHECK(decode(section, contexts, without, &used) == v);
    CHECK(raises([&] { decode(section, contexts, with, &used); }));
}

}  // namespace

int main() {
    test_steps();
    test_round_trips();
    test_numbers_without_a_code();
    test_tables();
    test_hostile_sections();
    test_hostile_tables();
    test_escape_of_the_known_is_refused();
    std::puts("contextual: ok");
    return 0;
}
