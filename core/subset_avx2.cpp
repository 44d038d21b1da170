#include "subset.hpp"

#include "select_positions_avx2.hpp"

namespace gradwire {
namespace {

#include "subset_loops.inl"

// Two words at a time would gain little: packing what is accepted costs what the multiplication saves.
std::size_t candidates(const std::uint32_t* words, std::size_t m, std::uint32_t n, std::uint32_t refused,
                       std::uint32_t* out) noexcept {
    return subset_kernels_portable.candidates(words, m, n, refused, out);
}

std::size_t positions(const std::uint64_t* bitmap, std::size_t count, std::uint64_t flip, std::uint32_t* out) noexcept {
    std::uint32_t* const first = out;
    for (std::size_t i = 0; i < count; ++i)
        out += write_positions_avx2(bitmap[i] ^ flip, static_cast<std::uint32_t>(64 * i), out);
    return static_cast<std::size_t>(out - first);
}

}  // namespace

const SubsetKernels subset_kernels_avx2 = {candidates, positions, insert, insert_two, scatter};

}  // namespace gradwire
