// Selection in parts gives what selection in one gives: whatever the vector, and wherever what is wanted of it lies.
#include "select_parallel.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "check.hpp"
#include "select.hpp"
#include "subset_gather.hpp"
#include "threads.hpp"

using namespace gradwire;

namespace {

using Floats = std::vector<float>;
using Indices = std::vector<std::uint32_t>;

constexpr std::size_t n = 1'100'003;

// Normal; all large entries in a few places; few different magnitudes; all equal; mostly zeros; with NaN.
constexpr unsigned shapes = 6;
Floats vector_of(unsigned shape) {
    Random random{shape};
    Floats x(n);
    for (std::size_t i = 0; i < n; ++i) {
        const float normal = random.about_normal();
        switch (shape) {
            case 0: x[i] = normal; break;
            case 1: x[i] = i / 50'000 % 20 == 7 ? normal * 100 : normal; break;
            case 2: x[i] = std::nearbyint(normal); break;
            case 3: x[i] = -2.5f; break;
            case 4: x[i] = random.below(1000) == 0 ? normal : 0; break;
            default: x[i] = i % 400'001 == 5 ? std::numeric_limits<float>::quiet_NaN() : normal; break;
        }
    }
    return x;
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {  // NaN equals itself
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

struct Selected {
    Indices indices;
    Floats values, total;
    bool operator==(const Selected& other) const {
        return same(indices, other.indices) && same(values, other.values) && same(total, other.total);
    }
};

Selected top(const Floats& x, std::size_t r) {
    Selected made{Indices(r), Floats(r), {}};
    select_top_in_parallel(x.data(), n, r, made.indices.data(), made.values.data());
    return made;
}

// total lies where the residual does, as it does in training.
Selected taken(const Floats& x, const Floats& residual, std::size_t r) {
    Selected made{Indices(r), Floats(r), residual};
    take_top_in_parallel(x.data(), made.total.data(), made.total.data(), n, r, made.indices.data(), made.values.data());
    return made;
}

Selected reaching(const Floats& x, float threshold) {
    const auto parts = reaching_in_parallel(x.data(), n, threshold);
    Selected made{Indices(size_of(parts)), Floats(size_of(parts)), {}};
    join(parts, made.indices.data(), made.values.data());
    return made;
}

Selected drawn(const Floats& x, const Floats& residual, std::size_t k, bool take, std::size_t* bad) {
    std::vector<std::uint64_t> room(subset_draw_words(n, static_cast<std::uint32_t>(k)));
    const DrawnSubset subset = draw_subset(3, 4, n, static_cast<std::uint32_t>(k), room.data());
    Selected made{Indices(take ? k : 0), Floats(k), residual};
    *bad = take ? take_subset_in_parallel(x.data(), made.total.data(), made.total.data(), n, subset, made.indices.data(),
                                          made.values.data())
                : gather_subset_in_parallel(x.data(), n, subset, made.values.data());
    return made;
}

}  // namespace

int main() {
    const Floats residual = vector_of(0);
    for (unsigned shape = 0; shape < shapes; ++shape) {
        const Floats x = vector_of(shape);
        for (const std::size_t r : {std::size_t{1}, std::size_t{1000}, n / 30, n / 16, n / 3}) {
            set_threads(1);
            const Selected expected = top(x, r), left = taken(x, residual, r);
            for (std::size_t j = 0; j < r; ++j)
                CHECK(std::bit_cast<std::uint32_t>(expected.values[j]) == std::bit_cast<std::uint32_t>(x[expected.indices[j]]));
            for (const unsigned count : {2u, 3u}) {
                set_threads(count);
                CHECK(top(x, r) == expected);
                CHECK(taken(x, residual, r) == left);
            }
        }
        for (const float threshold : {1e-20f, 1.5f, 1e20f}) {
            Selected expected;
            for (std::size_t i = 0; i < n; ++i) {
                if ((std::bit_cast<std::uint32_t>(x[i]) & key_mask) < std::bit_cast<std::uint32_t>(threshold)) continue;
                expected.indices.push_back(static_cast<std::uint32_t>(i));
                expected.values.push_back(x[i]);
            }
            for (unsigned count = 1; count <= 3; ++count) {
                set_threads(count);
                CHECK(reaching(x, threshold) == expected);
            }
        }
        for (const std::size_t k : {std::size_t{0}, std::size_t{5000}, n - 5000})
            for (const bool take : {false, true}) {
                std::size_t bad_alone = 0, bad = 0;
                set_threads(1);
                const Selected expected = drawn(x, residual, k, take, &bad_alone);
                set_threads(3);
                const Selected got = drawn(x, residual, k, take, &bad);
                CHECK(bad == bad_alone && (bad == n) == (shape != 5));
                CHECK(bad < n || got == expected);
            }
    }
}
