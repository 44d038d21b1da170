#include "select_parallel.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "blocks.hpp"
#include "select.hpp"
#include "select_kth.hpp"
#include "select_sample.hpp"
#include "subset_gather.hpp"
#include "threads.hpp"

namespace gradwire {
namespace {

// Entries of a part: whole blocks, and parts enough for each thread to have several, but no more of them.
std::size_t part_of(std::size_t n) noexcept {
    return std::max(std::size_t{1} << 18, parts_of(parts_of(n, 64), pass_block) * pass_block);
}

// A threshold that the r-th largest is most likely to reach: a little above so many of a sample. 0 if there is none.
template <class Sample>
float sampled_threshold(std::size_t n, std::size_t r, const Sample& sample) {
    const std::size_t size = sample_size(n);
    const Spare memory(sizeof(float) * size);
    auto* const entries = reinterpret_cast<float*>(memory.data());
    for (std::size_t i = 0; i < size; i += sample_run) sample(sample_place(n, i / sample_run), entries + i);
    const double share = static_cast<double>(r) / static_cast<double>(n);
    const double expected = share * static_cast<double>(size);
    const auto rank = static_cast<std::size_t>(expected + 4 * std::sqrt(expected * (1 - share)) + 5);
    if (rank > size) return 0;
    const std::uint32_t key = kth_largest(select_kernels(), reinterpret_cast<const std::uint32_t*>(entries), size, rank).key;
    const float threshold = std::bit_cast<float>(key);
    return std::isfinite(threshold) ? threshold : 0;
}

// Whether it pays: few are wanted of many, by more than one thread.
bool worth_parts(std::size_t n, std::size_t r) noexcept {
    return threads() > 1 && n >= worth_threads && r > 0 && r <= n / 16;
}

std::size_t first_room(std::size_t wanted, std::size_t n, std::size_t size) noexcept {
    return 2 * wanted / parts_of(n, size) + pass_block + select_slack;
}

// The r largest of what the parts kept, which includes the r largest of all; false if it cannot.
bool select_among(const std::vector<KeptEntries>& parts, std::size_t r, std::uint32_t* out, float* values) {
    const std::size_t kept = size_of(parts);
    if (kept < r) return false;
    const Spare memory(2 * sizeof(float) * kept);
    auto* const indices = reinterpret_cast<std::uint32_t*>(memory.data());
    auto* const entries = reinterpret_cast<float*>(memory.data()) + kept;
    join(parts, indices, entries);
    const std::size_t room = select_top_scratch(kept, r);
    const Spare scratch(2 * sizeof(std::uint32_t) * room);
    auto* const words = reinterpret_cast<std::uint32_t*>(scratch.data());
    select_top(entries, kept, r, {words, words + room}, out, values);
    for (std::size_t j = 0; j < r; ++j) out[j] = indices[out[j]];  // positions among the kept
    return true;
}

void select_alone(const float* x, std::size_t n, std::size_t r, std::uint32_t* out, float* values) {
    const std::size_t room = select_top_scratch(n, r);
    const Spare scratch(2 * sizeof(std::uint32_t) * room);
    auto* const words = reinterpret_cast<std::uint32_t*>(scratch.data());
    select_top(x, n, r, {words, words + room}, out, values);
}

void take_alone(const float* x, const float* residual, float* total, std::size_t n, std::size_t r, std::uint32_t* out,
                float* values) {
    const std::size_t room = select_top_scratch(n, r);
    const Spare scratch(2 * sizeof(std::uint32_t) * room);
    auto* const words = reinterpret_cast<std::uint32_t*>(scratch.data());
    take_top(x, residual, total, n, r, {words, words + room}, out, values);
}

// Parts of which none keeps more than is sensible where r are wanted of all.
std::vector<KeptEntries> empty_parts(std::size_t n, std::size_t r) {
    std::vector<KeptEntries> parts;
    const std::size_t most = 2 * r + pass_block + select_slack;
    for (std::size_t part = 0; part < parts_of(n, part_of(n)); ++part)
        parts.emplace_back(std::min(first_room(r, n, part_of(n)), most), most);
    return parts;
}

// Where the values of each part of a subset begin; and their number in the end.
std::vector<std::size_t> offsets_of(const DrawnSubset& subset, std::size_t n) {
    std::vector<std::size_t> counts(parts_of(n, part_of(n)) + 1, 0);
    in_parallel_pieces(n, part_of(n), [&](std::size_t begin, std::size_t size) {
        std::size_t count = 0;
        for (std::size_t word = begin / 64; word < parts_of(begin + size, 64); ++word)
            count += static_cast<std::size_t>(std::popcount(subset.bitmap[word] ^ subset.flip));
        counts[begin / part_of(n) + 1] = count;
    });
    for (std::size_t part = 1; part < counts.size(); ++part) counts[part] += counts[part - 1];
    return counts;
}

// gather(begin, size, part of the subset, offset) gives the first entry of its part that is not finite, or size.
template <class Gather>
std::size_t gather_parts(std::size_t n, const DrawnSubset& subset, const Gather& gather) {
    const std::vector<std::size_t> offsets = offsets_of(subset, n);
    std::atomic<std::size_t> first_bad{n};
    in_parallel_pieces(n, part_of(n), [&](std::size_t begin, std::size_t size) {
        const DrawnSubset part{subset.bitmap + begin / 64, subset.flip};
        const std::size_t bad = gather(begin, size, part, offsets[begin / part_of(n)]);
        if (bad == size) return;
        std::size_t seen = first_bad.load();
        while (begin + bad < seen && !first_bad.compare_exchange_weak(seen, begin + bad)) {
        }
    });
    return first_bad;
}

}  // namespace

KeptEntries::KeptEntries(std::size_t room, std::size_t most)
    : room_(room), most_(most), memory_((sizeof(std::uint32_t) + sizeof(float)) * room) {}

template <class Input>
std::size_t KeptEntries::keep(const Input& x, std::size_t begin, std::size_t end, float threshold) {
    for (;;) {
        auto* const indices = reinterpret_cast<std::uint32_t*>(memory_.data());
        begin = select_reaching(x, end, begin, threshold, room_, indices, reinterpret_cast<float*>(indices) + room_, &size_);
        if (begin == end || room_ == most_) return begin;
        KeptEntries larger(std::min(2 * room_, most_), most_);
        auto* const there = reinterpret_cast<std::uint32_t*>(larger.memory_.data());
        std::copy_n(this->indices(), size_, there);
        std::copy_n(this->values(), size_, reinterpret_cast<float*>(there) + larger.room_);
        std::swap(room_, larger.room_);
        memory_.swap(larger.memory_);
    }
}

std::size_t size_of(const std::vector<KeptEntries>& parts) noexcept {
    std::size_t size = 0;
    for (const KeptEntries& part : parts) size += part.size();
    return size;
}

void join(const std::vector<KeptEntries>& parts, std::uint32_t* indices, float* values) {
    std::vector<std::size_t> offsets{0};
    for (const KeptEntries& part : parts) offsets.push_back(offsets.back() + part.size());
    in_parallel(parts.size(), offsets.back(), [&](std::size_t i) {
        std::copy_n(parts[i].indices(), parts[i].size(), indices + offsets[i]);
        std::copy_n(parts[i].values(), parts[i].size(), values + offsets[i]);
    });
}

std::vector<KeptEntries> reaching_in_parallel(const float* x, std::size_t n, float threshold) {
    const std::size_t length = part_of(n);
    std::vector<KeptEntries> parts;
    for (std::size_t part = 0; part < parts_of(n, length); ++part) {
        const std::size_t most = std::min(length, n - part * length) + pass_block + select_slack;
        parts.emplace_back(std::min(first_room(n / 64, n, length), most), most);
    }
    in_parallel_pieces(n, length, [&](std::size_t begin, std::size_t size) {
        parts[begin / length].keep(Vector{x}, begin, begin + size, threshold);
    });
    return parts;
}

void select_top_in_parallel(const float* x, std::size_t n, std::size_t r, std::uint32_t* out, float* values) {
    if (!worth_parts(n, r)) return select_alone(x, n, r, out, values);
    const float threshold = sampled_threshold(n, r, [&](std::size_t place, float* sample) {
        std::memcpy(sample, x + place, sizeof(float) * sample_run);
    });
    if (threshold > 0) {
        std::vector<KeptEntries> parts = empty_parts(n, r);
        std::atomic<bool> all{true};
        in_parallel_pieces(n, part_of(n), [&](std::size_t begin, std::size_t size) {
            if (all && parts[begin / part_of(n)].keep(Vector{x}, begin, begin + size, threshold) < begin + size) all = false;
        });
        if (all && select_among(parts, r, out, values)) return;
    }
    select_alone(x, n, r, out, values);
}

void take_top_in_parallel(const float* x, const float* residual, float* total, std::size_t n, std::size_t r,
                          std::uint32_t* out, float* values) {
    if (!worth_parts(n, r)) return take_alone(x, residual, total, n, r, out, values);
    // Before the pass, for the sum may go where x or the residual is.
    const float threshold = sampled_threshold(n, r, [&](std::size_t place, float* sample) {
        value_kernels().sum(x + place, residual + place, sample_run, sample);
    });
    std::vector<KeptEntries> parts = empty_parts(n, r);
    std::atomic<bool> all{threshold > 0};
    in_parallel_pieces(n, part_of(n), [&](std::size_t begin, std::size_t size) {
        const std::size_t end = begin + size;
        if (threshold > 0) begin = parts[begin / part_of(n)].keep(Sum{x, residual, total}, begin, end, threshold);
        if (begin == end) return;
        value_kernels().sum(x + begin, residual + begin, end - begin, total + begin);
        all = false;
    });
    if (!all || !select_among(parts, r, out, values)) select_alone(total, n, r, out, values);
    for (std::size_t j = 0; j < r; ++j) take_entry(total[out[j]]);
}

std::size_t gather_subset_in_parallel(const float* x, std::size_t n, const DrawnSubset& subset, float* values) {
    if (threads() == 1 || n < worth_threads) return gather_subset(x, n, subset, nullptr, values);
    return gather_parts(n, subset, [&](std::size_t begin, std::size_t size, const DrawnSubset& part, std::size_t offset) {
        return gather_subset(x + begin, size, part, nullptr, values + offset);
    });
}

std::size_t take_subset_in_parallel(const float* x, const float* residual, float* total, std::size_t n,
                                    const DrawnSubset& subset, std::uint32_t* indices, float* values) {
    if (threads() == 1 || n < worth_threads) return take_subset(x, residual, total, n, subset, indices, values);
    return gather_parts(n, subset, [&](std::size_t begin, std::size_t size, const DrawnSubset& part, std::size_t offset) {
        const std::size_t bad =
            take_subset(x + begin, residual + begin, total + begin, size, part, indices + offset, values + offset);
        std::size_t count = 0;
        for (std::size_t word = 0; word < parts_of(size, 64); ++word)
            count += static_cast<std::size_t>(std::popcount(part.bitmap[word] ^ part.flip));
        for (std::size_t j = 0; j < count; ++j) indices[offset + j] += static_cast<std::uint32_t>(begin);
        return bad;
    });
}

}  // namespace gradwire
