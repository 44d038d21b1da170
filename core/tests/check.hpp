// What the native tests share: a check that says where it failed, and random numbers.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                         \
    do {                                                                         \
        if (!(condition)) {                                                      \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                        \
        }                                                                        \
    } while (false)

// splitmix64: the same numbers with every standard library.
struct Random {
    std::uint64_t state;
    std::uint64_t word() {
        std::uint64_t z = state += 0x9E3779B97F4A7C15;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
        z = (z ^ z >> 27) * 0x94D049BB133111EB;
        return z ^ z >> 31;
    }
    std::uint64_t below(std::uint64_t n) { return word() % n; }
    double uniform() { return static_cast<double>(word() >> 11) * 0x1p-53; }
    float about_normal() { return static_cast<float>(uniform() + uniform() + uniform() + uniform() - 2); }
};
