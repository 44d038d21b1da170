#include "sums.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "threads.hpp"
#include "values.hpp"

namespace gradwire {
namespace {

// What `of` gives for each block of x, in order.
template <class Of>
auto of_blocks(std::size_t n, const Of& of) {
    std::vector<decltype(of(std::size_t{0}, std::size_t{0}))> results(parts_of(n, sum_block));
    in_parallel_pieces(n, sum_block,
                       [&](std::size_t begin, std::size_t size) { results[begin / sum_block] = of(begin, size); });
    return results;
}

template <class Of>
double sum_of_blocks(std::size_t n, const Of& of) {
    double total = 0;
    for (const double block : of_blocks(n, of)) total += block;
    return total;
}

// Magnitudes are ordered as their bits are, NaN above all.
std::uint32_t bits_of(float magnitude) noexcept { return std::bit_cast<std::uint32_t>(magnitude) & 0x7FFFFFFFu; }

}  // namespace

Extent extent(const float* x, std::size_t n) {
    const auto& kernels = quantise_kernels();
    Extent result{0, 0};
    for (const Extent& block : of_blocks(n, [&](std::size_t i, std::size_t size) { return kernels.extent(x + i, size); })) {
        if (bits_of(block.largest) > bits_of(result.largest)) result.largest = block.largest;
        result.squares += block.squares;
    }
    return result;
}

double sum_squares(const float* x, std::size_t n) {
    const auto& kernels = quantise_kernels();
    return sum_of_blocks(n, [&](std::size_t i, std::size_t size) { return kernels.sum_squares(x + i, size); });
}

double sum_abs(const float* x, std::size_t n) {
    const auto& kernels = quantise_kernels();
    return sum_of_blocks(n, [&](std::size_t i, std::size_t size) {
        double partial[partial_sums] = {};
        kernels.add_magnitudes(x + i, size, partial);
        return folded(partial);
    });
}

LevelSums level_sums(const float* x, std::size_t n, float inverse) {
    const auto& kernels = quantise_kernels();
    LevelSums result{};
    for (const LevelSums& block : of_blocks(
             n, [&](std::size_t i, std::size_t size) { return kernels.level_sums(x + i, size, inverse); })) {
        result.products += block.products;
        result.squares += block.squares;
        result.nonzero += block.nonzero;
    }
    return result;
}

float largest_magnitude(const float* x, std::size_t n) {
    const auto& kernels = value_kernels();
    std::uint32_t top = 0;
    for (const float block :
         of_blocks(n, [&](std::size_t i, std::size_t size) { return kernels.max_abs(x + i, size); }))
        top = std::max(top, bits_of(block));
    return std::bit_cast<float>(top);
}

void bucket_squares(const float* x, std::size_t n, std::size_t bucket, double* out) {
    const std::size_t buckets = parts_of(n, bucket);
    if (buckets == 1) {  // long buckets go by blocks
        out[0] = sum_squares(x, n);
        return;
    }
    const auto& kernels = quantise_kernels();
    const std::size_t together = std::max<std::size_t>(1, part_length / bucket);  // short buckets go many to a part
    in_parallel(parts_of(buckets, together), n, [&](std::size_t part) {
        for (std::size_t j = part * together; j < std::min((part + 1) * together, buckets); ++j)
            out[j] = kernels.sum_squares(x + j * bucket, std::min(bucket, n - j * bucket));
    });
}

}  // namespace gradwire
