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

#include "blocks.hpp"
#include "select_kth.hpp"
#include "select_sample.hpp"

namespace gradwire {
namespace {

constexpr std::size_t block = pass_block;

// Room for what is kept grows with r where few are wanted, and with n where many are.
bool many(std::size_t n, std::size_t r) noexcept { return sample_size(n) > 0 && r > n / 16; }

void take_run(const Vector& vector, std::size_t place, std::uint32_t* sample) noexcept {
    std::memcpy(sample, vector.x + place, sample_run * sizeof(*sample));
}

// Before the pass, for the sum may go where x or the residual is.
void take_run(const Sum& sum, std::size_t place, std::uint32_t* sample) noexcept {
    float sums[sample_run];
    value_kernels().sum(sum.x + place, sum.residual + place, sample_run, sums);
    std::memcpy(sample, sums, sizeof(sums));
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

// Puts entries back in company: stores that miss the caches one by one would each wait for memory.
class PutBack {
public:
    explicit PutBack(const Sum& sum) noexcept : sum_(sum) {}
    ~PutBack() { flush(); }

    void add(std::uint32_t index, std::uint32_t bits) noexcept {
        sum_.expect(index);
        indices_[size_] = index;
        bits_[size_] = bits;
        if (++size_ == most) flush();
    }

private:
    static constexpr std::size_t most = 64;

    void flush() noexcept {
        for (std::size_t j = 0; j < size_; ++j) sum_.put_back(indices_[j], bits_[j]);
        size_ = 0;
    }

    const Sum& sum_;
    std::size_t size_ = 0;
    std::uint32_t indices_[most], bits_[most];
};

// What a pass has kept of its input: indices, and the bits there.
template <class Input>
struct Kept {
    const SelectKernels& kernels;
    const Input& input;
    std::uint32_t* indices;
    std::uint32_t* bits;
    std::size_t size = 0;

    // Calls take(index, bits) for the r largest, ascending, and puts back the others where they were taken out.
    template <class Take>
    void part(std::size_t r, const Kth& kth, const Take& take) const noexcept {
        if constexpr (Input::takes_out) {
            PutBack others(input);
            std::size_t next = 0;
            const auto put_back_to = [&](std::size_t end) {
                for (; next < end; ++next) others.add(indices[next], bits[next]);
            };
            for_each_largest(kernels, bits, size, r, kth, [&](const std::uint32_t* positions, std::size_t count) {
                for (std::size_t j = 0; j < count; ++j) {
                    put_back_to(positions[j]);
                    take(indices[next], bits[next]);
                    ++next;
                }
            });
            put_back_to(size);
        } else {
            for_each_largest(kernels, bits, size, r, kth, [&](const std::uint32_t* positions, std::size_t count) {
                for (std::size_t j = 0; j < count; ++j) take(indices[positions[j]], bits[positions[j]]);
            });
        }
    }
};

// Keys that are likely to enclose the r-th largest.
struct Range {
    std::uint32_t low, high;
};

// One pass over the input that takes entries with key ≥ low, and leaves it without the r largest; false, and the input
// whole, if there are fewer than r of them.
template <class Input>
bool top_few(const SelectKernels& kernels, const Input& input, std::size_t n, std::size_t r, Range range,
             const SelectScratch& scratch, std::uint32_t* out, float* values) noexcept {
    std::uint32_t low = range.low;
    Kept<Input> kept{kernels, input, scratch.indices, scratch.bits};
    const std::size_t room = select_top_scratch(n, r) - select_slack;
    constexpr unsigned octave = 23 - 11;  // the r-th key is rarely more than a factor of two above a good threshold
    unsigned shift = low == 0 ? 20 : octave;
    std::uint32_t lowest_kept = low;
    for (std::size_t begin = 0; begin < n; begin += block) {
        const std::size_t end = std::min(begin + block, n);
        if (kept.size + (end - begin) > room) {
            const Kth kth = kth_largest(kernels, kept.bits, kept.size, r, lowest_kept, shift);
            std::size_t best = 0;  // in place: entries move to the front, behind what has been read
            kept.part(r, kth, [&](std::uint32_t index, std::uint32_t its_bits) {
                kept.indices[best] = index;
                kept.bits[best++] = its_bits;
            });
            kept.size = r;
            lowest_kept = kth.key;
            low = kth.key + 1;  // an equal one has a higher index than the r that are kept
            shift = octave;
        }
        std::uint32_t* const found = kept.indices + kept.size;
        const std::size_t count = input.at_least(kernels, begin, end, low, found);
        const auto* const bits = reinterpret_cast<const std::uint32_t*>(input.read(begin));
        for (std::size_t j = 0; j < count; ++j) kept.bits[kept.size + j] = bits[found[j]];
        input.take(begin, found, count);
        for (std::size_t j = 0; j < count; ++j) found[j] += static_cast<std::uint32_t>(begin);
        kept.size += count;
    }
    if (kept.size < r) {
        if constexpr (Input::takes_out)
            for (std::size_t j = 0; j < kept.size; ++j) input.put_back(kept.indices[j], kept.bits[j]);
        return false;
    }
    // What is above the range need not be told apart: there is room for the others behind what is kept, as a rule.
    Kth kth{};
    if (range.high < key_mask && lowest_kept <= range.high)
        kth = kth_between(kernels, kept.bits, kept.size, r, lowest_kept, range.high, kept.bits + kept.size,
                          room - kept.size);
    if (kth.equal == 0) kth = kth_largest(kernels, kept.bits, kept.size, r, lowest_kept, shift);
    kept.part(r, kth, [&](std::uint32_t index, std::uint32_t bits) {
        *out++ = index;
        if (values != nullptr) *values++ = std::bit_cast<float>(bits);
    });
    return true;
}

// The keys that enclose the r-th largest of the input, judged by a sample of it; `extra` more of the sample reach low than
// chance alone asks for.
template <class Input>
Range sampled_range(const SelectKernels& kernels, const Input& input, std::size_t n, std::size_t r, double extra,
                    std::uint32_t* sample) noexcept {
    const std::size_t sampled = sample_size(n);
    if (sampled == 0) return {0, key_mask};
    for (std::size_t i = 0; i < sampled; i += sample_run) take_run(input, sample_place(n, i / sample_run), sample + i);
    const double share = static_cast<double>(r) / static_cast<double>(n);
    const double rank = share * static_cast<double>(sampled);  // of the r-th largest in the sample, expected
    const double margin = 4 * std::sqrt(rank * (1 - share));
    const auto key_of_rank = [&](double of) {
        return kth_largest(kernels, sample, sampled, static_cast<std::size_t>(of)).key;
    };
    const double lower = rank + margin + extra, upper = rank - margin;
    const bool worth_it = r > sampled;  // else the upper one costs more than it saves
    return {lower <= static_cast<double>(sampled) ? key_of_rank(lower) : 0,
            worth_it && upper >= 1 ? key_of_rank(upper) : key_mask};
}

// False if the sample guessed wrong: then nothing is written, but the whole of the input has been gone through.
template <class Input>
bool select_few(const SelectKernels& kernels, const Input& input, std::size_t n, std::size_t r,
                const SelectScratch& scratch, std::uint32_t* out, float* values) noexcept {
    const Range range = sampled_range(kernels, input, n, r, 5, scratch.bits);
    return top_few(kernels, input, n, r, range, scratch, out, values);
}

void select_many(const SelectKernels& kernels, const float* x, std::size_t n, std::size_t r,
                 const SelectScratch& scratch, std::uint32_t* out, float* values) noexcept {
    const auto* const bits = reinterpret_cast<const std::uint32_t*>(x);
    const auto [low, high] = sampled_range(kernels, Vector{x}, n, r, 1, scratch.bits);
    Kth kth = kth_between(kernels, bits, n, r, low, high, scratch.bits, select_top_scratch(n, r) - select_slack);
    if (kth.equal == 0) kth = kth_largest(kernels, bits, n, r);
    for_each_largest(kernels, bits, n, r, kth, [&](const std::uint32_t* positions, std::size_t count) {
        std::memcpy(out, positions, count * sizeof(*out));
        out += count;
        if (values == nullptr) return;
        for (std::size_t j = 0; j < count; ++j) *values++ = x[positions[j]];
    });
}

}  // namespace

std::size_t select_top_scratch(std::size_t n, std::size_t r) noexcept {
    const std::size_t kept = many(n, r) ? n / 8 : r + r / 2;
    const std::size_t with_block = std::min(kept + 2 * block, n);
    return std::max(with_block, sample_size(n)) + select_slack;
}

void select_top(const float* x, std::size_t n, std::size_t r, const SelectScratch& scratch, std::uint32_t* out,
                float* values) noexcept {
    if (r == 0) return;
    if (r == n) {
        for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<std::uint32_t>(i);
        if (values != nullptr) std::memcpy(values, x, n * sizeof(*values));
        return;
    }
    const SelectKernels& kernels = select_kernels();
    const Vector vector{x};
    if (many(n, r))
        select_many(kernels, x, n, r, scratch, out, values);
    else if (!select_few(kernels, vector, n, r, scratch, out, values))
        top_few(kernels, vector, n, r, {0, key_mask}, scratch, out, values);
}

void take_top(const float* x, const float* residual, float* total, std::size_t n, std::size_t r,
              const SelectScratch& scratch, std::uint32_t* out, float* values) noexcept {
    if (r > 0 && r < n && !many(n, r)) {
        const SelectKernels& kernels = select_kernels();
        if (select_few(kernels, Sum{x, residual, total}, n, r, scratch, out, values)) return;
    } else {
        value_kernels().sum(x, residual, n, total);
    }
    select_top(total, n, r, scratch, out, values);
    for (std::size_t j = 0; j < r; ++j) take_entry(total[out[j]]);
}

template <class Input>
std::size_t select_reaching(const Input& x, std::size_t n, std::size_t begin, float threshold, std::size_t room,
                            std::uint32_t* indices, float* values, std::size_t* count) noexcept {
    const std::uint32_t low = std::bit_cast<std::uint32_t>(threshold);
    const SelectKernels& kernels = select_kernels();
    std::size_t kept = *count;
    for (; begin < n; begin = std::min(begin + block, n)) {
        const std::size_t end = std::min(begin + block, n);
        if (kept + (end - begin) + select_slack > room) break;
        const std::size_t found = x.at_least(kernels, begin, end, low, indices + kept);
        const float* const entries = x.read(begin);
        for (std::size_t j = kept; j < kept + found; ++j) values[j] = entries[indices[j]];
        for (std::size_t j = kept; j < kept + found; ++j) indices[j] += static_cast<std::uint32_t>(begin);
        kept += found;
    }
    *count = kept;
    return begin;
}

template std::size_t select_reaching(const Vector&, std::size_t, std::size_t, float, std::size_t, std::uint32_t*, float*,
                                     std::size_t*) noexcept;
template std::size_t select_reaching(const Sum&, std::size_t, std::size_t, float, std::size_t, std::uint32_t*, float*,
                                     std::size_t*) noexcept;

}  // namespace gradwire
