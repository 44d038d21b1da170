// How the largest r are found without sorting, and without a second array of the input's size.
//
// Few wanted: a threshold that lies below the r-th largest key is guessed from a sample; one pass over the input keeps
// what reaches it, about 1.2·r entries; the exact r-th key is then found among those. Should more be kept than there
// is room for, all but the best r of them are dropped and the threshold rises, so the sample is never trusted with the
// answer: if it guessed too low this costs some time, if too high the pass is repeated without it.
//
// Many wanted: keeping them all would cost more than a second pass. The sample gives two keys that enclose the r-th
// largest; one pass counts what is above and keeps what is between; the second pass writes the result.
#include "select.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "select_kth.hpp"
#include "select_sample.hpp"

namespace gradwire {
namespace {

constexpr std::size_t block = 4096;  // entries of the input that a step handles while they are in the first cache

// Room for what is kept grows with r where few are wanted, and with n where many are.
bool many(std::size_t n, std::size_t r) noexcept { return sample_size(n) > 0 && r > n / 16; }

void take_sample(const std::uint32_t* bits, std::size_t n, std::uint32_t* sample) noexcept {
    for (std::size_t i = 0; i < sample_size(n); i += sample_run)
        std::memcpy(sample + i, bits + sample_place(n, i / sample_run), sample_run * sizeof(*bits));
}

// Calls take(positions, count) with the positions of the r largest, ascending, a block at a time. kth is what
// kth_largest says of these bits and this r.
template <class Take>
void for_each_largest(const SelectKernels& kernels, const std::uint32_t* bits, std::size_t n, std::size_t r,
                      const Kth& kth, const Take& take) noexcept {
    std::uint32_t positions[block + select_slack];
    std::size_t ties = r - kth.greater;  // wanted among the equal ones: the first
    bool all_ties = ties == kth.equal;   // then they need not be counted
    std::uint32_t low = kth.key;
    for (std::size_t begin = 0; begin < n;) {
        std::size_t end = std::min(begin + block, n);
        if (!all_ties) {
            const std::size_t equal = kernels.count_at_least(bits, begin, end, kth.key) -
                                      kernels.count_at_least(bits, begin, end, kth.key + 1);
            if (equal > ties) {  // the last wanted tie is in this block: end it there
                end = begin;
                for (; ties > 0; ++end) ties -= (bits[end] & key_mask) == kth.key;
                take(positions, kernels.at_least(bits, begin, end, kth.key, positions));
                all_ties = true;
                low = kth.key + 1;
                begin = end;
                continue;
            }
            ties -= equal;
        }
        take(positions, kernels.at_least(bits, begin, end, low, positions));
        begin = end;
    }
}

// One pass that keeps entries with key ≥ low; false if there are fewer than r of them.
bool top_few(const SelectKernels& kernels, const std::uint32_t* bits, std::size_t n, std::size_t r, std::uint32_t low,
             std::uint32_t* out, std::uint32_t* indices, std::uint32_t* keys) noexcept {
    const std::size_t room = select_top_scratch(n, r) - select_slack;
    constexpr unsigned octave = 23 - 11;  // the r-th key is rarely more than a factor of two above a good threshold
    unsigned shift = low == 0 ? 20 : octave;
    std::uint32_t lowest_kept = low;
    std::size_t kept = 0;
    for (std::size_t begin = 0; begin < n; begin += block) {
        const std::size_t end = std::min(begin + block, n);
        if (kept + (end - begin) > room) {
            const Kth kth = kth_largest(kernels, keys, kept, r, lowest_kept, shift);
            std::size_t best = 0;  // in place: entries move to the front, behind what has been read
            for_each_largest(kernels, keys, kept, r, kth, [&](const std::uint32_t* positions, std::size_t count) {
                for (std::size_t j = 0; j < count; ++j, ++best) {
                    indices[best] = indices[positions[j]];
                    keys[best] = keys[positions[j]];
                }
            });
            kept = r;
            lowest_kept = kth.key;
            low = kth.key + 1;  // an equal one has a higher index than the r that are kept
            shift = octave;
        }
        const std::size_t found = kernels.at_least(bits, begin, end, low, indices + kept);
        for (std::size_t j = kept; j < kept + found; ++j) keys[j] = bits[indices[j]] & key_mask;
        kept += found;
    }
    if (kept < r) return false;
    const Kth kth = kth_largest(kernels, keys, kept, r, lowest_kept, shift);
    for_each_largest(kernels, keys, kept, r, kth, [&](const std::uint32_t* positions, std::size_t count) {
        for (std::size_t j = 0; j < count; ++j) *out++ = indices[positions[j]];
    });
    return true;
}

// The r-th key by one pass that keeps the keys in low … high; key 0 and no equal ones if it is not there, or they are
// too many.
Kth kth_between(const SelectKernels& kernels, const std::uint32_t* bits, std::size_t n, std::size_t r,
                std::uint32_t low, std::uint32_t high, std::uint32_t* keys, std::size_t room) noexcept {
    std::size_t above = 0, kept = 0;
    if (low == high) {  // as when most entries are zero: nothing to choose from, and perhaps too many to keep
        for (std::size_t begin = 0; begin < n; begin += block) {
            const std::size_t end = std::min(begin + block, n);
            const std::size_t larger = kernels.count_at_least(bits, begin, end, high + 1);
            above += larger;
            kept += kernels.count_at_least(bits, begin, end, low) - larger;
        }
        return above < r && above + kept >= r ? Kth{low, above, kept} : Kth{};
    }
    for (std::size_t begin = 0; begin < n; begin += block) {
        const std::size_t end = std::min(begin + block, n);
        if (kept + (end - begin) > room) return {};
        above += kernels.count_at_least(bits, begin, end, high + 1);
        const std::size_t found = kernels.between(bits, begin, end, low, high, keys + kept);
        for (std::size_t j = kept; j < kept + found; ++j) keys[j] = bits[keys[j]] & key_mask;
        kept += found;
    }
    if (above >= r || above + kept < r) return {};
    const unsigned width = static_cast<unsigned>(std::bit_width(high - low));
    Kth kth = kth_largest(kernels, keys, kept, r - above, low, width > 11 ? width - 11 : 0);
    kth.greater += above;
    return kth;
}

}  // namespace

std::size_t select_top_scratch(std::size_t n, std::size_t r) noexcept {
    const std::size_t kept = many(n, r) ? n / 8 : r + r / 2;
    const std::size_t with_block = std::min(kept + 2 * block, n);
    return std::max(with_block, sample_size(n)) + select_slack;
}

void select_top(const std::uint32_t* bits, std::size_t n, std::size_t r, std::uint32_t* out,
                std::uint32_t* scratch_indices, std::uint32_t* scratch_keys) noexcept {
    if (r == 0) return;
    if (r == n) {
        for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<std::uint32_t>(i);
        return;
    }
    const SelectKernels& kernels = select_kernels();
    const std::size_t sampled = sample_size(n);
    take_sample(bits, n, scratch_keys);
    const double share = static_cast<double>(r) / static_cast<double>(n);
    const double rank = share * static_cast<double>(sampled);  // of the r-th largest in the sample, expected
    const double deviation = std::sqrt(rank * (1 - share));
    const auto key_of_rank = [&](double of) {
        return kth_largest(kernels, scratch_keys, sampled, static_cast<std::size_t>(of)).key;
    };

    if (many(n, r)) {
        const double lower = rank + 4 * deviation + 1, upper = rank - 4 * deviation;
        const std::uint32_t high = upper >= 1 ? key_of_rank(upper) : key_mask;
        const std::uint32_t low = lower <= static_cast<double>(sampled) ? key_of_rank(lower) : 0;
        Kth kth = kth_between(kernels, bits, n, r, low, high, scratch_keys, select_top_scratch(n, r) - select_slack);
        if (kth.equal == 0) kth = kth_largest(kernels, bits, n, r);
        for_each_largest(kernels, bits, n, r, kth, [&](const std::uint32_t* positions, std::size_t count) {
            std::memcpy(out, positions, count * sizeof(*out));
            out += count;
        });
        return;
    }
    const std::uint32_t low = sampled > 0 ? key_of_rank(rank + 4 * deviation + 5) : 0;
    if (!top_few(kernels, bits, n, r, low, out, scratch_indices, scratch_keys))
        top_few(kernels, bits, n, r, 0, out, scratch_indices, scratch_keys);
}

}  // namespace gradwire
