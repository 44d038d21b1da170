// The points and gains of a vector's blocks, kept near the fewest bytes: there may be a block for every few entries, and a
// number and a gain for each would need a large part of the memory that the vector has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "spherical.hpp"

namespace gradwire {

class FoundBlocks {
public:
    // Chunks of so many blocks are put and read as a whole.
    FoundBlocks(const BlockSplit& split, std::size_t chunk);
    FoundBlocks(FoundBlocks&&) = default;

    const BlockSplit& split() const noexcept { return split_; }
    std::size_t chunks() const noexcept { return kept_.size(); }
    std::size_t chunk() const noexcept { return chunk_; }
    std::size_t first(std::size_t c) const noexcept { return c * chunk_; }
    std::size_t count(std::size_t c) const noexcept { return c + 1 < chunks() ? chunk_ : split_.m - first(c); }
    std::size_t begin(std::size_t c) const noexcept { return split_.begin(first(c)); }  // its first entry

    // Once for each chunk, from any thread. index is below 2^40 and counts where a gain is positive; a gain is 0, raw_gain
    // or a positive normal number. raw has the entries of the blocks that are sent as they are, if somebody will ask.
    void put(std::size_t c, const std::uint64_t* index, const float* gain, std::vector<float> raw = {});

    void gains(std::size_t c, float* gain) const noexcept;
    void points(std::size_t c, float* gain, std::uint64_t* index) const noexcept;  // and gains
    const std::vector<float>& raw(std::size_t c) const noexcept { return kept_[c].raw; }
    std::size_t bytes() const noexcept;  // of memory, raw entries aside
    // Whether entries of blocks that are sent as they are were left out.
    bool lacks_entries() const noexcept;

private:
    struct Kept {
        std::unique_ptr<std::uint8_t[]> bytes;  // a bit stream of gains, another of points behind it
        std::size_t size = 0, points_at = 0;
        unsigned exponent = 0, width = 0;  // the least, and the bits of a gain's kind
        unsigned r = 0;
        bool lacking = false;
        std::vector<float> raw;
    };

    template <bool with_points>
    void read(std::size_t c, float* gain, std::uint64_t* index) const noexcept;

    BlockSplit split_;
    std::size_t chunk_;
    std::vector<Kept> kept_;
};

// Goes through the chunks from the first to the last.
class FoundReader {
public:
    FoundReader(const FoundBlocks& found, bool with_points);
    bool next() noexcept;  // on to the next chunk; false behind the last

    std::size_t first() const noexcept { return found_.first(c_); }
    std::size_t count() const noexcept { return found_.count(c_); }
    const float* gain() const noexcept { return gain_.get(); }
    const std::uint64_t* index() const noexcept { return index_.get(); }

private:
    const FoundBlocks& found_;
    std::size_t c_ = ~std::size_t{0};
    std::unique_ptr<float[]> gain_;
    std::unique_ptr<std::uint64_t[]> index_;
};

// All gains, one by one.
class GainReader {
public:
    explicit GainReader(const FoundBlocks& found) : blocks_(found, false) {}

    // The next one; null behind the last.
    const float* next() noexcept {
        if (at_ == end_) {
            if (!blocks_.next()) return nullptr;
            at_ = blocks_.gain();
            end_ = at_ + blocks_.count();
        }
        return at_++;
    }

private:
    FoundReader blocks_;
    const float *at_ = nullptr, *end_ = nullptr;
};

}  // namespace gradwire
