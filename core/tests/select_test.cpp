// select_top against a stable sort, on every instruction set, with buffers of exactly the promised sizes: run under
// AddressSanitizer these show any access outside. Returns non-zero on the first difference.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "blocks.hpp"
#include "check.hpp"
#include "dispatch.hpp"
#include "select.hpp"
#include "select_kth.hpp"
#include "select_sample.hpp"

using namespace gradwire;

namespace {

using Words = std::vector<std::uint32_t>;

std::uint32_t key(std::uint32_t bits) { return bits & key_mask; }

Words expected_top(const Words& bits, std::size_t r) {
    Words order(bits.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return key(bits[a]) > key(bits[b]); });
    order.resize(r);
    std::sort(order.begin(), order.end());
    return order;
}

[[noreturn]] void fail(const std::string& what) {
    std::printf("FAILED %s\n", what.c_str());
    std::exit(1);
}

using Floats = std::vector<float>;

// Bit for bit, whatever the bits are.
Floats floats_of(const Words& bits) {
    Floats x(bits.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::bit_cast<float>(bits[i]);
    return x;
}

Words bits_of(const Floats& x) {
    Words bits(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) bits[i] = std::bit_cast<std::uint32_t>(x[i]);
    return bits;
}

// The room that select_top asks for.
struct Scratch {
    Words indices, bits;
    Scratch(std::size_t n, std::size_t r) : indices(select_top_scratch(n, r)), bits(indices.size()) {}
    operator SelectScratch() { return {indices.data(), bits.data()}; }
};

Words top(const Words& bits, std::size_t r) {
    const Floats x = floats_of(bits);
    Words out(r), again(r);
    Floats values(r);
    Scratch scratch(bits.size(), r);
    select_top(x.data(), x.size(), r, scratch, out.data(), values.data());
    select_top(x.data(), x.size(), r, scratch, again.data(), nullptr);
    if (again != out) fail("top without values");
    const Words got = bits_of(values);
    for (std::size_t j = 0; j < r; ++j)
        if (got[j] != bits[out[j]]) fail("values of top");
    return out;
}

// What take_top leaves of a sum whose bits are known, wherever the sum goes: v + −0 is v, whatever number v is.
void check_take(const Words& bits, std::size_t r, const Words& chosen, const std::string& what) {
    if (std::any_of(bits.begin(), bits.end(), [](auto v) { return key(v) > 0x7F800000u; })) return;
    const std::size_t n = bits.size();
    Words left = bits;
    for (const std::uint32_t i : chosen)
        if (key(left[i]) != 0) left[i] = 0;
    for (int place = 0; place < 3; ++place) {
        Floats v = floats_of(bits), zeros(n, -0.0f), elsewhere(n, 7.0f);
        Floats& total = place == 0 ? elsewhere : place == 1 ? v : zeros;
        Words out(r);
        Floats values(r);
        Scratch scratch(n, r);
        // The sum in the place of the first summand, and in that of the second.
        take_top(v.data(), zeros.data(), total.data(), n, r, scratch, out.data(), values.data());
        if (out != chosen) fail("indices of take_top, " + what);
        if (bits_of(total) != left) fail("what take_top leaves, " + what);
        const Words got = bits_of(values);
        for (std::size_t j = 0; j < r; ++j)
            if (got[j] != bits[out[j]]) fail("values of take_top, " + what);
    }
}

struct Family {
    const char* name;
    std::function<std::uint32_t(std::size_t i, std::size_t n)> entry;
};

void check_top(Simd level) {
    std::mt19937_64 random(7);
    std::normal_distribution<float> normal;
    const auto bits_of = [](double v) { return std::bit_cast<std::uint32_t>(static_cast<float>(v)); };
    // Tops of long plateaus, the two ends of the order, and what a sample of runs of 16 must not be trusted with.
    const std::vector<Family> families = {
        {"normal", [&](auto, auto) { return bits_of(normal(random)); }},
        {"ascending", [&](auto i, auto) { return bits_of(static_cast<double>(i)); }},
        {"descending", [&](auto i, auto n) { return bits_of(-static_cast<double>(n - i)); }},
        {"constant", [&](auto, auto) { return bits_of(-2.5); }},
        {"zeros of both signs", [&](auto i, auto) { return i % 3 == 0 ? 0x80000000u : 0u; }},
        {"one entry", [&](auto i, auto n) { return i == n / 3 ? bits_of(1) : 0u; }},
        {"few values", [&](auto, auto) { return bits_of(std::round(normal(random))); }},
        {"sparse", [&](auto, auto) { return random() % 200 == 0 ? bits_of(normal(random)) : 0u; }},
        {"any bits", [&](auto, auto) { return static_cast<std::uint32_t>(random()); }},
        {"all NaN", [&](auto i, auto) { return i % 2 == 0 ? 0xFFFFFFFFu : 0x7FFFFFFFu; }},
        {"heavy tail", [&](auto, auto) { return bits_of(std::exp(9.0 * normal(random))); }},
        {"steps", [&](auto i, auto) { return bits_of(static_cast<double>(i / 997)); }},
        {"large at the end",
         [&](auto i, auto n) { return bits_of(i + n / 50 < n ? normal(random) : 1e3 + static_cast<double>(i)); }},
        {"nearly equal", [&](auto, auto) { return 0x3F800000u + static_cast<std::uint32_t>(random() % 5000); }},
    };
    const std::vector<std::size_t> sizes = {1,    2,    15,   16,   17,   63,   64,   65,   1000,
                                            1024, 1025, 2047, 2048, 4095, 4097, 9000, 70000};
    for (const auto& family : families)
        for (const std::size_t n : sizes) {
            Words bits(n);
            for (std::size_t i = 0; i < n; ++i) bits[i] = family.entry(i, n);
            for (const std::size_t r : {std::size_t{0}, std::size_t{1}, n / 1000, n / 100, n / 20, n / 16, n / 16 + 1,
                                        n / 3, n / 2, n / 2 + 1, n - n / 50, n - 1, n}) {
                if (r > n) continue;
                const std::string what = "level " + std::to_string(static_cast<int>(level)) + ", " + family.name +
                                         ", n = " + std::to_string(n) + ", r = " + std::to_string(r);
                const Words wanted = expected_top(bits, r);
                if (top(bits, r) != wanted) fail("top, " + what);
                check_take(bits, r, wanted, what);
            }
        }
}

// The sample sees nothing of what the rest is, and the rest ascends, so that every entry is a candidate.
void check_misleading_sample() {
    for (const std::size_t n : {2048, 20000, 300000})
        for (const float seen : {1e-6f, 1e6f}) {
            Words bits(n);
            for (std::size_t i = 0; i < n; ++i) bits[i] = std::bit_cast<std::uint32_t>(static_cast<float>(i + 1));
            for (std::size_t i = 0; i < sample_size(n) / sample_run; ++i)
                std::fill_n(bits.begin() + static_cast<std::ptrdiff_t>(sample_place(n, i)), sample_run,
                            std::bit_cast<std::uint32_t>(seen));
            for (const std::size_t r : {std::size_t{1}, n / 1000, n / 100, n / 20, n / 15, n / 2, n - 1}) {
                const Words wanted = expected_top(bits, r);
                if (top(bits, r) != wanted) fail("misleading sample, n = " + std::to_string(n));
                check_take(bits, r, wanted, "misleading sample");
            }
        }
}

// kth_largest with every starting range that its contract allows, also ones that miss the answer.
void check_kth() {
    std::mt19937_64 random(8);
    for (const std::size_t n : {1, 2, 1024, 1025, 5000, 20000})
        for (const std::uint32_t spread : {1u, 10u, 50u, 100000u, 0x7FFFFFFFu}) {
            Words bits(n);
            const std::uint32_t base = spread == 0x7FFFFFFFu ? 0 : 0x3F000000u;
            for (auto& v : bits) v = (base + static_cast<std::uint32_t>(random() % spread)) | (random() & 1) << 31;
            Words sorted(n);
            std::transform(bits.begin(), bits.end(), sorted.begin(), key);
            std::sort(sorted.begin(), sorted.end(), std::greater<>());
            for (const std::size_t r : {std::size_t{1}, (n + 1) / 2, n})
                for (const std::uint32_t low : {0u, sorted.back() / 2, sorted.back()})
                    for (const unsigned shift : {0u, 1u, 10u, 12u, 19u, 20u}) {
                        const Kth kth = kth_largest(select_kernels(), bits.data(), n, r, low, shift);
                        const std::uint32_t want = sorted[r - 1];
                        const auto greater =
                            std::count_if(sorted.begin(), sorted.end(), [&](auto v) { return v > want; });
                        const auto equal = std::count(sorted.begin(), sorted.end(), want);
                        if (kth.key != want || kth.greater != static_cast<std::size_t>(greater) ||
                            kth.equal != static_cast<std::size_t>(equal))
                            fail("kth_largest, n = " + std::to_string(n) + ", r = " + std::to_string(r) + ", low = " +
                                 std::to_string(low) + ", shift = " + std::to_string(shift));
                    }
        }
}

// A sum whose bits are known: −0 leaves every number as it is. It goes to an array of its own, or where x or the residual is.
void check_sum_at_least(const SelectKernels& kernels, const Words& bits, std::size_t begin, std::uint32_t low,
                        const Words& want, std::mt19937_64& random) {
    const std::size_t n = bits.size() - begin;
    std::vector<float> x(n), residual(n, -0.0f), total(n);
    if (n > 0) std::memcpy(x.data(), bits.data() + begin, n * sizeof(float));
    const unsigned place = random() % 3;
    float* const to = place == 0 ? x.data() : place == 1 ? residual.data() : total.data();
    Words got(want.size() + select_slack);
    got.resize(kernels.sum_at_least(x.data(), residual.data(), n, to, low, got.data()));
    for (auto& position : got) position += static_cast<std::uint32_t>(begin);
    if (got != want) fail("sum_at_least");
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t due = bits[begin + i], is = std::bit_cast<std::uint32_t>(to[i]);
        if (is != due && (due & key_mask) <= 0x7F800000u) fail("the sum of sum_at_least");  // a NaN becomes a quiet one
    }
}

// Each kernel against its definition, at every alignment, with limits at the ends of the range of keys.
void check_kernels() {
    const SelectKernels& kernels = select_kernels();
    std::mt19937_64 random(9);
    Words bits(300);
    for (auto& v : bits) v = random() % 4 == 0 ? static_cast<std::uint32_t>(random()) : 0x80000000u * (random() & 1);
    bits[5] = 0xFFFFFFFFu;
    const std::uint32_t some = key(bits[7]);
    for (std::size_t begin = 0; begin < 70; ++begin)
        for (std::size_t end = begin; end <= bits.size(); end += 1 + end % 7)
            for (const std::uint32_t low : {0u, 1u, some, 0x7FFFFFFFu, 0x80000000u})
                for (const std::uint32_t high : {0u, some, 0x7FFFFFFFu}) {
                    Words want, want_between;
                    for (std::size_t i = begin; i < end; ++i) {
                        const auto position = static_cast<std::uint32_t>(i);
                        if (key(bits[i]) >= low) want.push_back(position);
                        if (key(bits[i]) >= low && key(bits[i]) <= high) want_between.push_back(position);
                    }
                    // Its own array, so that a read past the end is seen.
                    const Words front(bits.begin(), bits.begin() + static_cast<std::ptrdiff_t>(end));
                    Words got(want.size() + select_slack);
                    got.resize(kernels.at_least(front.data(), begin, end, low, got.data()));
                    if (got != want) fail("at_least");
                    if (kernels.count_at_least(front.data(), begin, end, low) != want.size()) fail("count_at_least");
                    check_sum_at_least(kernels, front, begin, low, want, random);
                    if (low > high) continue;
                    got.assign(want_between.size() + select_slack, 0);
                    got.resize(kernels.between(front.data(), begin, end, low, high, got.data()));
                    if (got != want_between) fail("between");
                }
}

// In pieces of every size of room that can hold a block, against the definition.
void check_reaching() {
    Random random{10};
    for (const std::size_t n : {0, 1, 5000, 20000})
        for (const float threshold : {1e-45f, 0.5f, 1.5f, std::numeric_limits<float>::infinity()}) {
            Floats x(n);
            for (auto& v : x) v = random.below(3) == 0 ? threshold : random.about_normal();
            if (n > 10) x[n / 2] = std::numeric_limits<float>::quiet_NaN();
            Words wanted;
            for (std::size_t i = 0; i < n; ++i)
                if (!(std::fabs(x[i]) < threshold)) wanted.push_back(static_cast<std::uint32_t>(i));
            Words got;
            Floats values;
            const Floats zeros(n, -0.0f);
            Floats total(n);
            const bool sum = random.below(2) == 0;
            for (std::size_t begin = 0, rounds = 0; begin < n || rounds == 0; ++rounds) {
                const std::size_t room = 4096 + select_slack + random.below(5000), before = random.below(100);
                Words indices(room);
                Floats kept(room);
                std::size_t count = before;
                if (before + 4096 + select_slack > room) count = 0;
                const std::size_t first = count;
                const std::size_t stopped =
                    sum ? select_reaching(Sum{x.data(), zeros.data(), total.data()}, n, begin, threshold, room,
                                          indices.data(), kept.data(), &count)
                        : select_reaching(Vector{x.data()}, n, begin, threshold, room, indices.data(), kept.data(),
                                          &count);
                if (stopped == begin && begin < n) fail("reaching stops though there is room");
                begin = stopped;
                got.insert(got.end(), indices.begin() + static_cast<std::ptrdiff_t>(first),
                           indices.begin() + static_cast<std::ptrdiff_t>(count));
                values.insert(values.end(), kept.begin() + static_cast<std::ptrdiff_t>(first),
                              kept.begin() + static_cast<std::ptrdiff_t>(count));
            }
            if (got != wanted) fail("reaching, n = " + std::to_string(n));
            for (std::size_t j = 0; j < got.size(); ++j)
                if (std::bit_cast<std::uint32_t>(values[j]) != std::bit_cast<std::uint32_t>(x[got[j]]))
                    fail("values of reaching");
        }
}

}  // namespace

int main() {
    for (const Simd level : {Simd::portable, Simd::avx2, Simd::avx512}) {
        if (set_simd(level) != level) continue;  // not on this processor
        check_kernels();
        check_kth();
        check_top(level);
        check_misleading_sample();
        check_reaching();
    }
    std::puts("select: ok");
    return 0;
}
