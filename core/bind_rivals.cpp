// What the compressors need that Sparse Dithering is compared with, beyond its own kernels.
#include <algorithm>

#include "bindings.hpp"
#include "natural.hpp"
#include "philox.hpp"
#include "threads.hpp"

void bind_rivals(nb::module_& m) {
    m.def("round_natural", [](FloatsIn x, int lowest, std::uint64_t seed, std::uint64_t stream) {
        if (lowest != gradwire::natural_lowest && (lowest < -126 || lowest > 0))
            throw nb::value_error("the lowest exponent is -149, or -126 to 0");
        auto out = std::make_unique_for_overwrite<std::uint32_t[]>(x.size());
        {
            nb::gil_scoped_release release;
            gradwire::in_parallel_pieces(x.size(), gradwire::part_length, [&](std::size_t part, std::size_t part_size) {
                constexpr std::size_t piece = 4096;  // random words are made in pieces that stay in the cache
                std::uint32_t words[piece];
                for (std::size_t begin = part; begin < part + part_size; begin += piece) {
                    const std::size_t size = std::min(piece, part + part_size - begin);
                    gradwire::philox_words(seed, stream, begin, size, words);
                    gradwire::natural_kernels().round(x.data() + begin, size, lowest, words, out.get() + begin);
                }
            });
        }
        return owned_array(std::move(out), x.size());
    });
}
