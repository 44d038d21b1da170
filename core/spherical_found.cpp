#include "spherical_found.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "bits.hpp"
#include "threads.hpp"

namespace gradwire {
namespace {

using spherical::index_bits;
using spherical::raw_gain;

// A gain's kind: 0 for a block of zeros, 1 for one that is sent as it is, else 2 and its exponent above the least.
enum : unsigned { zero_kind, raw_kind, least_kind };
constexpr std::size_t gain_bytes = 7;   // a kind of 8 bits, 23 zeros, a one and 23 bits
constexpr std::size_t point_bytes = 7;  // 16 zeros and 40 bits, or 15, a one and 31
constexpr unsigned quotient_limit = 16, most_r = 31;

std::uint32_t pattern_of(float gain) noexcept { return std::bit_cast<std::uint32_t>(gain); }

constexpr std::uint64_t low_bits(unsigned count) noexcept { return (std::uint64_t{1} << count) - 1; }

}  // namespace

FoundBlocks::FoundBlocks(const BlockSplit& split, std::size_t chunk)
    : split_(split), chunk_(std::min(chunk, split.m)), kept_(parts_of(split.m, chunk_)) {}

void FoundBlocks::put(std::size_t c, const std::uint64_t* index, const float* gain, std::vector<float> raw) {
    const std::size_t m = count(c);
    Kept& kept = kept_[c];
    std::uint32_t lowest = ~0u, highest = 0;
    std::uint64_t sum = 0;
    std::size_t searched = 0;
    for (std::size_t b = 0; b < m; ++b) {
        kept.lacking |= gain[b] == raw_gain && raw.empty();
        if (!(gain[b] > 0)) continue;
        const std::uint32_t exponent = pattern_of(gain[b]) >> 23;
        lowest = std::min(lowest, exponent);
        highest = std::max(highest, exponent);
        sum += index[b] >> 1;
        ++searched;
    }
    kept.exponent = searched > 0 ? lowest : 0;
    kept.width = static_cast<unsigned>(std::bit_width(least_kind + (searched > 0 ? highest - lowest : 0)));
    // Numbers are about geometric: this parameter is the best, or next to it.
    kept.r = searched > 0 ? std::min(static_cast<unsigned>(std::bit_width(sum / searched)), most_r) : 0;
    const auto space = std::make_unique_for_overwrite<std::uint8_t[]>((gain_bytes + point_bytes) * m + 2 * write_slack);
    BitWriter gains(space.get());
    for (std::size_t b = 0; b < m; ++b) {
        if (!(gain[b] > 0)) {
            gains.put(gain[b] == 0 ? zero_kind : raw_kind, kept.width);
            continue;
        }
        // How many bits of the mantissa there are as zeros before a one, then these.
        const std::uint32_t pattern = pattern_of(gain[b]);
        const auto zeros = static_cast<unsigned>(std::countr_zero(pattern | 1u << 23));
        const unsigned level = 23 - zeros;
        const std::uint64_t mantissa = (pattern & low_bits(23)) >> zeros;
        const std::uint64_t rest = (mantissa << 1 | 1) << level;
        gains.put(rest << kept.width | ((pattern >> 23) - lowest + least_kind), kept.width + 2 * level + 1);
    }
    std::uint8_t* const middle = gains.finish();
    BitWriter points(middle);
    for (std::size_t b = 0; b < m; ++b) {
        if (!(gain[b] > 0)) continue;
        const std::uint64_t q = index[b] >> kept.r;
        if (q < quotient_limit)
            points.put(((index[b] & low_bits(kept.r)) << 1 | 1) << q, static_cast<unsigned>(q) + 1 + kept.r);
        else
            points.put(index[b] << quotient_limit, quotient_limit + index_bits);
    }
    kept.points_at = static_cast<std::size_t>(middle - space.get());
    kept.size = static_cast<std::size_t>(points.finish() - space.get());
    kept.bytes = std::make_unique_for_overwrite<std::uint8_t[]>(kept.size);
    std::memcpy(kept.bytes.get(), space.get(), kept.size);
    kept.raw = std::move(raw);
}

template <bool with_points>
void FoundBlocks::read(std::size_t c, float* gain, std::uint64_t* index) const noexcept {
    const Kept& kept = kept_[c];
    const std::uint8_t* const end = kept.bytes.get() + kept.size;
    BitReader gains(kept.bytes.get(), end), points(kept.bytes.get() + kept.points_at, end);
    const unsigned width = kept.width, r = kept.r;
    const std::uint64_t lowest = kept.exponent;
    for (std::size_t b = 0, m = count(c); b < m; ++b) {
        const std::uint64_t word = gains.peek();
        const std::uint64_t kind = word & low_bits(width);
        if (kind < least_kind) {
            gain[b] = kind == zero_kind ? 0.0f : raw_gain;
            gains.skip(width);
            if (with_points) index[b] = 0;
            continue;
        }
        const std::uint64_t rest = word >> width;
        const auto level = static_cast<unsigned>(std::countr_zero(rest));
        const std::uint64_t mantissa = rest >> level >> 1 & low_bits(level);
        const std::uint64_t pattern = (kind - least_kind + lowest) << 23 | mantissa << (23 - level);
        gain[b] = std::bit_cast<float>(static_cast<std::uint32_t>(pattern));
        gains.skip(width + 2 * level + 1);
        if (!with_points) continue;
        // In the same loop: neither stream's next position waits for the other's.
        const std::uint64_t point = points.peek();
        const auto q = static_cast<unsigned>(std::countr_zero(point | 1u << quotient_limit));
        if (q < quotient_limit) {
            index[b] = std::uint64_t{q} << r | (point >> q >> 1 & low_bits(r));
            points.skip(q + 1 + r);
        } else {
            index[b] = point >> quotient_limit & low_bits(index_bits);
            points.skip(quotient_limit + index_bits);
        }
    }
}

void FoundBlocks::gains(std::size_t c, float* gain) const noexcept { read<false>(c, gain, nullptr); }

void FoundBlocks::points(std::size_t c, float* gain, std::uint64_t* index) const noexcept { read<true>(c, gain, index); }

std::size_t FoundBlocks::bytes() const noexcept {
    std::size_t bytes = 0;
    for (const Kept& kept : kept_) bytes += sizeof kept + kept.size;
    return bytes;
}

bool FoundBlocks::lacks_entries() const noexcept {
    return std::ranges::any_of(kept_, [](const Kept& kept) { return kept.lacking; });
}

FoundReader::FoundReader(const FoundBlocks& found, bool with_points)
    : found_(found),
      gain_(std::make_unique_for_overwrite<float[]>(found.chunk())),
      index_(with_points ? std::make_unique_for_overwrite<std::uint64_t[]>(found.chunk()) : nullptr) {}

bool FoundReader::next() noexcept {
    if (++c_ == found_.chunks()) return false;
    if (index_) found_.points(c_, gain_.get(), index_.get());
    else found_.gains(c_, gain_.get());
    return true;
}

}  // namespace gradwire
