#include "spherical.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "dispatch.hpp"
#include "philox.hpp"

namespace gradwire {
namespace portable {
namespace {
#define LANES 4
using Pattern = std::int32_t __attribute__((vector_size(4 * LANES)));
inline void root(float* p) noexcept {
    for (int i = 0; i < LANES; ++i) p[i] = std::sqrt(p[i]);
}
inline bool above(Pattern v, std::int32_t bound) noexcept {
    return (v[0] > bound) | (v[1] > bound) | (v[2] > bound) | (v[3] > bound);
}
#include "spherical_loops.inl"
}  // namespace
}  // namespace portable

const SphericalKernels spherical_kernels_portable = portable::table;

namespace {

using namespace spherical;

const SphericalKernels& kernels_in_force() noexcept {
#if defined(__x86_64__)
    if (simd() == Simd::avx512) return spherical_kernels_avx512;
    if (simd() == Simd::avx2) return spherical_kernels_avx2;
#endif
    return spherical_kernels_portable;
}

// The sign bits, by entry, of those that change sign in block b.
class Flips {
public:
    Flips(std::uint64_t seed, std::size_t b, std::size_t d) noexcept { philox_words(seed, 1, 8 * b, (d + 31) / 32, words_); }
    float turned(float value, std::size_t i) const noexcept {
        const std::uint32_t sign = words_[i / 32] >> (i % 32) << 31;
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ sign);
    }

private:
    std::uint32_t words_[longest / 32];
};

// Coordinate times gain, saturating.
float scaled(float coordinate, float gain) noexcept {
    constexpr float most = std::numeric_limits<float>::max();
    return std::clamp(coordinate * gain, -most, most);
}

// The binary32 in [low, high], 0 < low, whose mantissa ends in the most zeros; the largest such; 0 if there is none.
float roundest(double low, double high) noexcept {
    constexpr float most = std::numeric_limits<float>::max();
    if (low > static_cast<double>(most)) return 0;
    const auto a = static_cast<float>(low), b = static_cast<float>(std::min(high, static_cast<double>(most)));
    const std::uint32_t a_bits = std::bit_cast<std::uint32_t>(a) + (static_cast<double>(a) < low);
    const std::uint32_t b_bits = std::bit_cast<std::uint32_t>(b) - (static_cast<double>(b) > high);
    if (a_bits > b_bits) return 0;
    const int k = std::min(23, static_cast<int>(std::bit_width((a_bits - 1) ^ b_bits)) - 1);
    return std::bit_cast<float>(b_bits >> k << k);
}

struct Fit {
    float gain;  // 0: the point does not serve
    bool negative;
};

// The roundest gain with which a point (a column of a tile) approximates the flipped block within α.
Fit fitting_gain(const float* x, std::size_t d, const Flips& flips, const float* point, double energy,
                 double alpha) noexcept {
    double c = 0, w = 0;
    for (std::size_t i = 0; i < d; ++i) {
        const auto p = static_cast<double>(point[i * tile]);
        c += static_cast<double>(flips.turned(x[i], i)) * p;
        w += p * p;
    }
    const bool negative = c < 0;
    c = std::fabs(c);
    // The error of the gain g is N − 2cg + wg²: at most αN between the roots.
    const double rest = c * c - w * ((1.0 - alpha) * energy);
    if (rest < 0) return {0, negative};
    const double root = std::sqrt(rest);
    const float gain = roundest((c - root) / w, (c + root) / w);
    double error = 0;
    for (std::size_t i = 0; i < d; ++i) {
        const float value = scaled(point[i * tile], gain);
        const double difference =
            static_cast<double>(flips.turned(x[i], i)) - static_cast<double>(negative ? -value : value);
        error += difference * difference;
    }
    return {error <= alpha * energy * margin ? gain : 0.0f, negative};
}

// Blocks of one length d.
void search_group(const SphericalSearch& search, std::size_t first, std::size_t count, const SearchScratch& scratch,
                  std::uint64_t* index, float* gain) noexcept {
    const SphericalKernels& kernels = kernels_in_force();
    const std::size_t d = search.split.length(first);
    const float* const x = search.x + search.split.begin(first);
    std::size_t left = 0;
    for (std::size_t b = 0; b < count; ++b) {
        const float* const block = x + b * d;
        double energy = 0;
        for (std::size_t i = 0; i < d; ++i) energy += static_cast<double>(block[i]) * static_cast<double>(block[i]);
        index[b] = 0;
        gain[b] = energy > 0 ? raw_gain : 0.0f;
        if (energy < least_energy) continue;
        const double inverse = 1.0 / std::sqrt(energy);
        const Flips flips(search.seed, first + b, d);
        for (std::size_t i = 0; i < d; ++i)
            scratch.units[b * d + i] = static_cast<float>(static_cast<double>(flips.turned(block[i], i)) * inverse);
        scratch.energies[b] = energy;
        scratch.active[left++] = static_cast<std::uint32_t>(b);
    }
    const auto least =
        static_cast<float>(static_cast<double>(radius) * std::sqrt(1.0 - search.alpha) * (1.0 - 0x1p-20));
    std::uint64_t pairs[tile];
    for (std::uint64_t start = 0; start < search.pair_limit && left > 0; start += tile) {
        for (std::size_t lane = 0; lane < tile; ++lane) pairs[lane] = start + lane;
        kernels.points(search.seed, pairs, tile, d, scratch.points);
        const std::size_t lanes = std::min<std::uint64_t>(tile, search.pair_limit - start);
        std::size_t kept = 0;
        for (std::size_t a = 0; a < left; ++a) {
            const std::uint32_t b = scratch.active[a];
            bool found = false;
            for (std::size_t lane = 0; !found; ++lane) {
                lane = kernels.scan(scratch.points, scratch.units + b * d, d, least, lane);
                if (lane >= lanes) break;
                const Fit fit = fitting_gain(x + b * d, d, Flips(search.seed, first + b, d), scratch.points + lane,
                                             scratch.energies[b], search.alpha);
                if (fit.gain > 0) {
                    found = true;
                    gain[b] = fit.gain;
                    index[b] = 2 * (start + lane) + fit.negative;
                }
            }
            scratch.active[kept] = b;
            kept += !found;
        }
        left = kept;
    }
}

}  // namespace

std::size_t spherical_chunk(const BlockSplit& split, std::size_t threads) noexcept {
    constexpr std::size_t entries = std::size_t{1} << 16;
    const std::size_t share = (split.m + threads - 1) / threads;
    return std::max<std::size_t>(1, std::min(entries / split.most(), share));
}

void spherical_search(const SphericalSearch& search, std::size_t first, std::size_t count, const SearchScratch& scratch,
                      std::uint64_t* index, float* gain) noexcept {
    const std::size_t longer = search.split.n % search.split.m;
    const std::size_t before = first < longer ? std::min(count, longer - first) : 0;
    if (before > 0) search_group(search, first, before, scratch, index, gain);
    if (before < count) search_group(search, first + before, count - before, scratch, index + before, gain + before);
}

void spherical_values(const BlockSplit& split, std::uint64_t seed, std::size_t first, std::size_t count,
                      const std::uint64_t* index, const float* gain, const float* raw, float* scratch, float* out) noexcept {
    const SphericalKernels& kernels = kernels_in_force();
    std::uint64_t pairs[tile];
    std::size_t blocks[tile];
    const std::size_t begin = split.begin(first);
    for (std::size_t b = 0; b < count;) {
        const std::size_t d = split.length(first + b);
        std::size_t lanes = 0;
        for (; b < count && split.length(first + b) == d && lanes < tile; ++b) {
            if (gain[b] > 0) {
                blocks[lanes] = b;
                pairs[lanes++] = index[b] >> 1;
                continue;
            }
            float* const values = out + (split.begin(first + b) - begin);
            if (gain[b] == 0) std::fill_n(values, d, 0.0f);
            else std::copy_n(std::exchange(raw, raw + d), d, values);
        }
        const std::size_t whole = (lanes + 15) / 16 * 16;
        std::fill(pairs + lanes, pairs + whole, 0);
        kernels.points(seed, pairs, whole, d, scratch);
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            const std::size_t block = blocks[lane];
            const Flips flips(seed, first + block, d);
            const float turn = index[block] & 1 ? -1.0f : 1.0f;
            float* const values = out + (split.begin(first + block) - begin);
            for (std::size_t i = 0; i < d; ++i)
                values[i] = flips.turned(turn * scaled(scratch[i * tile + lane], gain[block]), i);
        }
    }
}

}  // namespace gradwire
