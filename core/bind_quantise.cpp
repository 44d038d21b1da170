#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "levels.hpp"
#include "philox.hpp"
#include "quantise.hpp"
#include "spare.hpp"

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

// The scratch of a block, in one piece of memory.
class EncodingScratch {
public:
    explicit EncodingScratch(std::size_t m)
        : tokens_(m), wide_(m), extra_(gradwire::extra_bound(m)), stack_(2 * (m + gradwire::stack_slack)),
          block_(gradwire::block_bound(m, 29 * std::uint64_t{m})) {}

    gradwire::LevelScratch parts() const {
        return {tokens_.data(), wide_.data(), extra_.data(), reinterpret_cast<std::uint16_t*>(stack_.data()),
                block_.data()};
    }

private:
    gradwire::Spare tokens_, wide_, extra_, stack_, block_;
};

// A read-only view of bytes that lie in spare memory, which is given back with it.
nb::object view_of(const std::uint8_t* data, std::size_t size) {
    auto* const held = new gradwire::Spare(size);
    const nb::capsule owner(held, [](void* p) noexcept { delete static_cast<gradwire::Spare*>(p); });
    std::memcpy(held->data(), data, size);
    const nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>> array(held->data(), {size}, owner);
    PyObject* const view = PyMemoryView_FromObject(nb::cast(array).ptr());
    if (view == nullptr) throw nb::python_error();
    return nb::steal(view);
}

struct EncodedLevels {
    nb::list blocks;  // a piece each: they are copied once, when the frame is sealed
    gradwire::LevelSums sums{};
};

// Last to first: who measured the vector for its step has just read it, and its end is still in the cache.
EncodedLevels encode_blocks(const FloatsIn& x, const gradwire::Quantiser& quantiser) {
    using namespace gradwire;
    const std::size_t count = (x.size() + block_length - 1) / block_length;
    const EncodingScratch scratch(std::min(x.size(), block_length));
    std::vector<nb::object> pieces(count);
    std::vector<LevelSums> sums(count);
    for (std::size_t b = count; b-- > 0;) {
        const std::size_t first = b * block_length;
        LevelBlock made;
        {
            nb::gil_scoped_release release;
            const std::size_t m = std::min(block_length, x.size() - first);
            made = encode_level_block(x.data(), first, m, quantiser, scratch.parts());
        }
        sums[b] = made.sums;
        pieces[b] = view_of(scratch.parts().block, made.size);
    }
    EncodedLevels result;
    for (std::size_t b = 0; b < count; ++b) {
        result.blocks.append(pieces[b]);
        result.sums.products += sums[b].products;
        result.sums.squares += sums[b].squares;
        result.sums.nonzero += sums[b].nonzero;
    }
    return result;
}

nb::tuple encode_levels(FloatsIn x, float inverse, int rounding, std::uint64_t seed, std::uint64_t stream) {
    if (rounding < 0 || rounding > 2) throw nb::value_error("the rounding is 0, 1 or 2");
    const EncodedLevels made = encode_blocks(x, {inverse, static_cast<Rounding>(rounding), seed, stream, false});
    return nb::make_tuple(made.blocks, made.sums.nonzero);
}

nb::tuple encode_summed_levels(FloatsIn x, float inverse) {
    const EncodedLevels made = encode_blocks(x, {inverse, Rounding::nearest, 0, 0, true});
    return nb::make_tuple(made.blocks, made.sums.products, made.sums.squares, made.sums.nonzero);
}

void add_levels(BytesIn data, FloatsOut out, float step, float power, float weight, bool shared, std::uint64_t seed,
                std::uint64_t stream) {
    using namespace gradwire;
    nb::gil_scoped_release release;
    const std::size_t n = out.size();
    const Spare all_tokens(n), wide_scratch(std::min(n, block_length));
    std::uint8_t *const tokens = all_tokens.data(), *const wide = wide_scratch.data();
    std::vector<Block> blocks;
    ByteReader reader(data.data(), data.size());
    for (std::size_t first = 0; first < n; first += block_length) {
        blocks.push_back(read_block(reader, std::min(block_length, n - first)));
        check_level_block(blocks.back(), tokens + first, wide);
    }
    if (reader.left() != 0)
        throw MessageError("the message has " + std::to_string(reader.left()) + " bytes too many");
    std::size_t first = 0;
    for (const Block& block : blocks) {
        add_level_block(block, tokens + first, {step, power, weight, shared, seed, stream}, out.data(), first, wide);
        first += block.size;
    }
}

}  // namespace

void bind_quantise(nb::module_& m) {
    m.def("extent", [](FloatsIn x) {
        gradwire::Extent extent;
        {
            nb::gil_scoped_release release;
            extent = quantise_kernels().extent(x.data(), x.size());
        }
        return nb::make_tuple(extent.largest, extent.squares);
    });
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
    m.def("encode_summed_levels", &encode_summed_levels);
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
