#include <algorithm>

#include "bindings.hpp"
#include "philox.hpp"
#include "quantise.hpp"

namespace {

using gradwire::quantise_kernels;
using gradwire::Rounding;

constexpr std::size_t piece = 4096;  // random words are made in pieces that stay in the cache

template <class Work>
void in_pieces(std::size_t n, bool random, std::uint64_t seed, std::uint64_t stream, Work work) {
    std::uint32_t words[piece];
    for (std::size_t begin = 0; begin < n; begin += piece) {
        const std::size_t size = std::min(piece, n - begin);
        if (random) gradwire::philox_words(seed, stream, begin, size, words);
        work(begin, size, random ? words : nullptr);
    }
}

}  // namespace

void bind_quantise(nb::module_& m) {
    m.def("sum_squares", [](FloatsIn x) {
        nb::gil_scoped_release release;
        return quantise_kernels().sum_squares(x.data(), x.size());
    });
    m.def("sum_abs", [](FloatsIn x) {
        nb::gil_scoped_release release;
        return quantise_kernels().sum_abs(x.data(), x.size());
    });
    m.def("level_sums", [](FloatsIn x, float inverse) {
        gradwire::LevelSums sums;
        {
            nb::gil_scoped_release release;
            sums = quantise_kernels().level_sums(x.data(), x.size(), inverse);
        }
        return nb::make_tuple(sums.products, sums.squares, sums.nonzero);
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
