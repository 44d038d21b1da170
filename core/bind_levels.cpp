// Vectors straight to levels sections and back (docs/wire-format.md, 4.4): whole blocks of 2^20, each on a thread.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bind_blocks.hpp"
#include "bindings.hpp"
#include "levels.hpp"
#include "natural.hpp"
#include "powers.hpp"
#include "signs.hpp"
#include "spare.hpp"
#include "spare_array.hpp"
#include "sums.hpp"
#include "threads.hpp"

namespace {

using namespace gradwire;

EncodedLevels encode_quantised(const FloatsIn& x, const Quantiser& quantiser) {
    return encode_blocks(x, [&](std::size_t first, std::size_t m, const LevelScratch& scratch) {
        return encode_level_block(x.data(), first, m, quantiser, scratch);
    });
}

nb::tuple encode_levels(FloatsIn x, float inverse, int rounding, std::uint64_t seed, std::uint64_t stream) {
    if (rounding < 0 || rounding > 2) throw nb::value_error("the rounding is 0, 1 or 2");
    const EncodedLevels made = encode_quantised(x, {inverse, static_cast<Rounding>(rounding), seed, stream, false});
    return nb::make_tuple(made.blocks, made.sums.nonzero);
}

nb::tuple encode_summed_levels(FloatsIn x, float inverse) {
    const EncodedLevels made = encode_quantised(x, {inverse, Rounding::nearest, 0, 0, true});
    return nb::make_tuple(made.blocks, made.sums.products, made.sums.squares, made.sums.nonzero);
}

void check_buckets(std::size_t n, const FloatsIn& steps, std::size_t bucket) {
    if (bucket == 0 || steps.size() != parts_of(n, bucket)) throw nb::value_error("each bucket needs one step");
}

nb::tuple encode_divided_levels(FloatsIn x, FloatsIn divisors, std::size_t bucket, std::uint64_t seed,
                                std::uint64_t stream) {
    check_buckets(x.size(), divisors, bucket);
    const EncodedLevels made =
        encode_quantised(x, {1.0f, Rounding::stochastic, seed, stream, false, divisors.data(), bucket});
    return nb::make_tuple(made.blocks, made.sums.nonzero);
}

void check_lowest(int lowest) {
    if (lowest != natural_lowest && (lowest < -126 || lowest > 0))
        throw nb::value_error("the lowest exponent is -149, or -126 to 0");
}

std::uint32_t largest_power_(FloatsIn x, float divisor, int lowest, std::uint64_t seed, std::uint64_t stream,
                             float magnitude) {
    check_lowest(lowest);
    nb::gil_scoped_release release;
    return gradwire::largest_power(x.data(), x.size(), {divisor, lowest, seed, stream}, magnitude);
}

nb::tuple encode_powers(FloatsIn x, float divisor, int lowest, std::uint32_t largest, std::uint64_t seed,
                        std::uint64_t stream) {
    check_lowest(lowest);
    const PowerQuantiser quantiser{divisor, lowest, seed, stream};
    const EncodedLevels made = encode_blocks(x, [&](std::size_t first, std::size_t m, const LevelScratch& scratch) {
        return encode_power_block(x.data(), first, m, quantiser, largest, scratch);
    });
    return nb::make_tuple(made.blocks, made.sums.nonzero);
}

// Everything is read and checked before anything is added.
void add_section(const BytesIn& data, const FloatsOut& out, const Dequantiser& dequantiser) {
    nb::gil_scoped_release release;
    const std::size_t n = out.size();
    std::vector<Block> blocks;
    ByteReader reader(data.data(), data.size());
    for (std::size_t first = 0; first < n; first += block_length)
        blocks.push_back(read_block(reader, std::min(block_length, n - first)));
    if (reader.left() != 0)
        throw MessageError("the message has " + std::to_string(reader.left()) + " bytes too many");
    const Spare all_tokens(n);
    std::uint8_t* const tokens = all_tokens.data();
    in_parallel(blocks.size(), n, [&](std::size_t b) {
        const Spare wide(blocks[b].size);
        check_level_block(blocks[b], dequantiser, tokens + b * block_length, wide.data());
    });
    in_parallel(blocks.size(), n, [&](std::size_t b) {
        const Spare wide(blocks[b].size);
        const Spare addends(sizeof(float) * std::max<std::size_t>(dequantiser.count, plain_limit));
        const std::size_t first = b * block_length;
        add_level_block(blocks[b], tokens + first, dequantiser, out.data(), first, wide.data(),
                        reinterpret_cast<float*>(addends.data()));
    });
}

void add_levels(BytesIn data, FloatsOut out, float step, float power, float weight, bool shared, std::uint64_t seed,
                std::uint64_t stream) {
    add_section(data, out, {step, power, weight, shared, seed, stream});
}

void add_bucket_levels(BytesIn data, FloatsOut out, FloatsIn steps, std::size_t bucket, float power, float weight) {
    check_buckets(out.size(), steps, bucket);
    Dequantiser dequantiser{1.0f, power, weight, false, 0, 0};
    dequantiser.steps = steps.data();
    dequantiser.bucket = bucket;
    add_section(data, out, dequantiser);
}

void add_table_levels(BytesIn data, FloatsOut out, FloatsIn values, float weight) {
    constexpr std::size_t most = std::size_t{1} << 16;
    if (values.size() == 0 || values.size() > most) throw nb::value_error("the table has 1 to 2^16 values");
    Dequantiser dequantiser{1.0f, 1.0f, weight, false, 0, 0};
    dequantiser.values = values.data();
    dequantiser.count = static_cast<std::uint32_t>(values.size());
    add_section(data, out, dequantiser);
}

// The bits, and the sum of all magnitudes: it is finite if and only if x is.
nb::tuple pack_signs(FloatsIn x) {
    const std::size_t n = x.size();
    const SpareArray<std::uint8_t> bits(parts_of(n, 8));
    std::vector<double> sums(parts_of(n, sum_block));
    {
        nb::gil_scoped_release release;
        in_parallel_pieces(n, sum_block, [&](std::size_t begin, std::size_t size) {
            double partial[partial_sums] = {};
            for (std::size_t i = begin; i < begin + size; i += level_piece) {  // that are in the first cache for both
                const std::size_t piece = std::min(level_piece, begin + size - i);
                quantise_kernels().add_magnitudes(x.data() + i, piece, partial);
                sign_kernels().pack(x.data() + i, piece, bits.data() + i / 8);
            }
            sums[begin / sum_block] = folded(partial);
        });
    }
    double total = 0;
    for (const double sum : sums) total += sum;
    return nb::make_tuple(bits.array(parts_of(n, 8)), total);
}

void add_signs(BytesIn bits, FloatsOut out, float scale, float weight) {
    const std::size_t n = out.size();
    if (bits.size() != parts_of(n, 8)) throw nb::value_error("each entry needs one bit");
    if (n % 8 != 0 && bits.data()[n / 8] >> (n % 8) != 0)
        throw MessageError("the message has padding bits that are not zero");
    nb::gil_scoped_release release;
    in_parallel_pieces(n, part_length, [&](std::size_t begin, std::size_t size) {
        sign_kernels().add(out.data() + begin, size, bits.data() + begin / 8, weight * scale);
    });
}

}  // namespace

void bind_levels(nb::module_& m) {
    m.def("encode_levels", &encode_levels);
    m.def("encode_summed_levels", &encode_summed_levels);
    m.def("encode_divided_levels", &encode_divided_levels);
    m.def("largest_power", &largest_power_);
    m.def("encode_powers", &encode_powers);
    m.def("add_levels", &add_levels);
    m.def("add_bucket_levels", &add_bucket_levels);
    m.def("add_table_levels", &add_table_levels);
    m.def("pack_signs", &pack_signs);
    m.def("add_signs", &add_signs);
}
