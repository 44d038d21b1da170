#include <algorithm>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "levels.hpp"
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

// One bytes object a block: they are copied once, when the frame is sealed. And how many levels are not 0.
nb::tuple encode_levels(FloatsIn x, float inverse, int rounding, std::uint64_t seed, std::uint64_t stream) {
    using namespace gradwire;
    if (rounding < 0 || rounding > 2) throw nb::value_error("the rounding is 0, 1 or 2");
    const Quantiser quantiser{inverse, static_cast<Rounding>(rounding), seed, stream};
    const std::size_t most = std::min(x.size(), block_length);
    const auto tokens = uninitialised<std::uint8_t>(most);
    const auto extra = uninitialised<std::uint8_t>(extra_bound(most));
    const auto stack = uninitialised<std::uint16_t>(most + stack_slack);
    const auto block = uninitialised<std::uint8_t>(block_bound(most, 29 * std::uint64_t{most}));
    nb::list blocks;
    std::size_t nonzero = 0;
    for (std::size_t first = 0; first < x.size(); first += block_length) {
        LevelBlock made;
        {
            nb::gil_scoped_release release;
            made = encode_level_block(x.data(), first, std::min(block_length, x.size() - first), quantiser,
                                      {tokens.get(), extra.get(), stack.get(), block.get()});
        }
        nonzero += made.nonzero;
        blocks.append(nb::bytes(block.get(), made.size));
    }
    return nb::make_tuple(blocks, nonzero);
}

void add_levels(BytesIn data, FloatsOut out, float step, float power, float weight, bool shared, std::uint64_t seed,
                std::uint64_t stream) {
    using namespace gradwire;
    nb::gil_scoped_release release;
    const std::size_t n = out.size();
    const auto tokens = uninitialised<std::uint8_t>(n);
    std::vector<Block> blocks;
    ByteReader reader(data.data(), data.size());
    for (std::size_t first = 0; first < n; first += block_length) {
        blocks.push_back(read_block(reader, std::min(block_length, n - first)));
        check_level_block(blocks.back(), tokens.get() + first);
    }
    if (reader.left() != 0)
        throw MessageError("the message has " + std::to_string(reader.left()) + " bytes too many");
    std::size_t first = 0;
    for (const Block& block : blocks) {
        add_level_block(block, tokens.get() + first, {step, power, weight, shared, seed, stream}, out.data(), first);
        first += block.size;
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
    m.def("encode_levels", &encode_levels);
    m.def("add_levels", &add_levels);
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
