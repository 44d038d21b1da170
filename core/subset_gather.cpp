#include "subset_gather.hpp"

#include <algorithm>

#include "blocks.hpp"

namespace gradwire {
namespace {

static_assert(pass_block % 64 == 0, "a block begins with a word of the bitmap");

template <class Input>
std::size_t gather_from(const Input& input, std::size_t n, const DrawnSubset& subset, std::uint32_t* indices,
                        float* values) noexcept {
    const SubsetKernels& kernels = subset_kernels();
    const ValueKernels& floats = value_kernels();
    std::uint32_t positions[pass_block + subset_slack];
    for (std::size_t begin = 0; begin < n; begin += pass_block) {
        const std::size_t end = std::min(begin + pass_block, n);
        // Of the bitmap little is read at once: too little for the processor to see what comes next.
        for (std::size_t word = 0; word < pass_block / 64; word += 8)
            __builtin_prefetch(subset.bitmap + (begin + 2 * pass_block) / 64 + word);
        const float* const block = input.at(begin, end);
        const std::size_t bad = floats.find_nonfinite(block, end - begin);
        if (bad < end - begin) return begin + bad;
        const std::size_t count =
            kernels.positions(subset.bitmap + begin / 64, (end - begin + 63) / 64, subset.flip, positions);
        for (std::size_t j = 0; j < count; ++j) values[j] = block[positions[j]];
        input.take(begin, positions, count);
        values += count;
        if (indices == nullptr) continue;
        for (std::size_t j = 0; j < count; ++j) indices[j] = static_cast<std::uint32_t>(begin) + positions[j];
        indices += count;
    }
    return n;
}

}  // namespace

std::size_t gather_subset(const float* x, std::size_t n, const DrawnSubset& subset, std::uint32_t* indices,
                          float* values) noexcept {
    return gather_from(Vector{x}, n, subset, indices, values);
}

std::size_t take_subset(const float* x, const float* residual, float* total, std::size_t n,
                        const DrawnSubset& subset, std::uint32_t* indices, float* values) noexcept {
    return gather_from(Sum{x, residual, total}, n, subset, indices, values);
}

void thin_entries(const std::uint32_t* indices, const float* values, std::size_t n, const DrawnSubset& subset,
                  std::uint32_t* out_indices, float* out_values) noexcept {
    const SubsetKernels& kernels = subset_kernels();
    std::uint32_t positions[pass_block + subset_slack];
    for (std::size_t begin = 0; begin < n; begin += pass_block) {
        const std::size_t size = std::min(pass_block, n - begin);
        const std::size_t count =
            kernels.positions(subset.bitmap + begin / 64, (size + 63) / 64, subset.flip, positions);
        for (std::size_t j = 0; j < count; ++j) {
            out_indices[j] = indices[begin + positions[j]];
            out_values[j] = values[begin + positions[j]];
        }
        out_indices += count;
        out_values += count;
    }
}

void put_back_others(const std::uint32_t* indices, const float* values, std::size_t n, const DrawnSubset& subset,
                     float* total) noexcept {
    const SubsetKernels& kernels = subset_kernels();
    std::uint32_t positions[pass_block + subset_slack];
    for (std::size_t begin = 0; begin < n; begin += pass_block) {
        const std::size_t size = std::min(pass_block, n - begin);
        std::size_t count =
            kernels.positions(subset.bitmap + begin / 64, (size + 63) / 64, ~subset.flip, positions);
        while (count > 0 && positions[count - 1] >= size) --count;  // behind the end no bit is set
        // Stores that miss the caches one by one would each wait for memory.
        for (std::size_t j = 0; j < count; ++j) __builtin_prefetch(total + indices[begin + positions[j]], 1);
        for (std::size_t j = 0; j < count; ++j) total[indices[begin + positions[j]]] = values[begin + positions[j]];
    }
}

}  // namespace gradwire
