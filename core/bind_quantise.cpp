#include <algorithm>

#include "bindings.hpp"
#include "philox.hpp"
#include "quantise.hpp"
#include "sums.hpp"
#include "threads.hpp"

namespace {

using gradwire::quantise_kernels;
using gradwire::Rounding;

// Random words are made in pieces that stay in the cache.
template <class Work>
void in_pieces(std::size_t n, bool random, std::uint64_t seed, std::uint64_t stream, const Work& work) {
    constexpr std::size_t piece = 4096;
    gradwire::in_parallel_pieces(n, gradwire::part_length, [&](std::size_t part, std::size_t part_size) {
        std::uint32_t words[piece];
        for (std::size_t begin = part; begin < part + part_size; begin += piece) {
            const std::size_t size = std::min(piece, part + part_size - begin);
            if (random) gradwire::philox_words(seed, stream, begin, size, words);
            work(begin, size, random ? words : nullptr);
        }
    });
}

}  // namespace

void bind_quantise(nb::module_& m) {
    m.def("extent", [](FloatsIn x) {
        gradwire::Extent extent;
        {
            nb::gil_scoped_release release;
            extent = gradwire::extent(x.data(), x.size());
        }
        return nb::make_tuple(extent.largest, extent.squares);
    });
    m.def("sum_squares", [](FloatsIn x) {
        nb::gil_scoped_release release;
        return gradwire::sum_squares(x.data(), x.size());
    });
    m.def("sum_abs", [](FloatsIn x) {
        nb::gil_scoped_release release;
        return gradwire::sum_abs(x.data(), x.size());
    });
    m.def("level_sums", [](FloatsIn x, float inverse) {
        gradwire::LevelSums sums;
        {
            nb::gil_scoped_release release;
            sums = gradwire::level_sums(x.data(), x.size(), inverse);
        }
        return nb::make_tuple(sums.products, sums.squares, sums.nonzero);
    });
    // Σ x² of each bucket, each in the order of 4.6; the last bucket may be shorter.
    m.def("bucket_squares", [](FloatsIn x, std::size_t bucket) {
        if (bucket == 0) throw nb::value_error("a bucket has at least one entry");
        const std::size_t count = gradwire::parts_of(x.size(), bucket);
        auto out = std::make_unique_for_overwrite<double[]>(count);
        {
            nb::gil_scoped_release release;
            gradwire::bucket_squares(x.data(), x.size(), bucket, out.get());
        }
        return owned_array(std::move(out), count);
    });
    m.def("quantise", [](FloatsIn x, float inverse, int rounding, std::uint64_t seed, std::uint64_t stream) {
        if (rounding < 0 || rounding > 2) throw nb::value_error("the rounding is 0, 1 or 2");
        auto out = uninitialised<std::uint32_t>(x.size());
        {
            nb::gil_scoped_release release;
            in_pieces(x.size(), rounding != 0, seed, stream,
                      [&](std::size_t begin, std::size_t size, const std::uint32_t* words) {
                          quantise_kernels().quantise(x.data() + begin, size, inverse, static_cast<Rounding>(rounding),
                                                      words, out.get() + begin);
                      });
        }
        return owned_array(std::move(out), x.size());
    });
    m.def("dequantise", [](WordsIn zigzag, float step, bool shared, std::uint64_t seed, std::uint64_t stream) {
        auto out = uninitialised<float>(zigzag.size());
        {
            nb::gil_scoped_release release;
            in_pieces(zigzag.size(), shared, seed, stream,
                      [&](std::size_t begin, std::size_t size, const std::uint32_t* words) {
                          quantise_kernels().dequantise(zigzag.data() + begin, size, step, words, out.get() + begin);
                      });
        }
        return owned_array(std::move(out), zigzag.size());
    });
}
