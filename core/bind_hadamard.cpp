#include <algorithm>
#include <string>
#include <vector>

#include "bind_blocks.hpp"
#include "bindings.hpp"
#include "hadamard.hpp"
#include "spare_array.hpp"
#include "spreading.hpp"
#include "threads.hpp"

namespace {

using gradwire::hadamard_kernels;

constexpr unsigned most_levels = 4096;

std::size_t rows_of(std::size_t size, unsigned log2n, unsigned longest) {
    if (log2n > longest) throw nb::value_error("the transform's length is too large");
    if (size % (std::size_t{1} << log2n) != 0) throw nb::value_error("the array is no whole number of rows");
    return size >> log2n;
}

// work(row), many short rows to a part.
template <class Work>
void in_parallel_rows(std::size_t rows, std::size_t entries, const Work& work) {
    const std::size_t together = rows == 0 ? 1 : std::max<std::size_t>(1, gradwire::part_length / (entries / rows));
    gradwire::in_parallel_pieces(rows, together, entries, [&](std::size_t first, std::size_t count) {
        for (std::size_t r = first; r < first + count; ++r) work(r);
    });
}

std::size_t check_rows(std::size_t size, std::size_t rows, unsigned log2n) {
    const std::size_t there = rows_of(size, log2n, gradwire::kashin_longest);
    if (there != rows) throw nb::value_error("the arrays' lengths do not fit");
    return there;
}

// The integers section of coefficients that are rounded at random to 0 … levels − 1, `before` of a vector before them.
nb::list encode_coefficients(FloatsIn p, FloatsIn magnitudes, unsigned log2n, unsigned levels, std::uint64_t seed,
                             std::uint64_t before) {
    check_rows(p.size(), magnitudes.size(), log2n);
    if (levels < 2 || levels > most_levels) throw nb::value_error("there are 2 to 4096 levels");
    const gradwire::Coefficients coefficients{
        p.data(), magnitudes.data(), log2n, static_cast<float>(levels - 1) / 2, seed, before};
    const auto encode = [&](std::size_t first, std::size_t m, const gradwire::LevelScratch& scratch) {
        return gradwire::LevelBlock{gradwire::encode_coefficient_block(coefficients, first, m, scratch), {}};
    };
    return gradwire::encode_blocks(p, encode).blocks;
}

using IndexRows = nb::ndarray<const std::uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using FloatRows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

struct FrameChunks {
    std::size_t count, length;  // of chunks, and of the entries of each
    unsigned log2n;
    const std::uint32_t *chosen, *positions;
    const float *signs, *steps;
    unsigned levels;
    float power, weight;
};

// Number has room for every level.
template <class Number>
void add_checked(const std::vector<gradwire::Block>& blocks, const FrameChunks& chunks, float* out, std::size_t n) {
    using namespace gradwire;
    const std::size_t count = chunks.count << chunks.log2n;
    const Spare memory(sizeof(Number) * count);
    auto* const numbers = reinterpret_cast<Number*>(memory.data());
    in_parallel(blocks.size(), count, [&](std::size_t b) {
        const std::size_t size = blocks[b].size;
        const Spare tokens(size), wide(sizeof(std::uint32_t) * size);
        auto* const v = reinterpret_cast<std::uint32_t*>(wide.data());
        decode_numbers(blocks[b], tokens.data(), v);
        std::uint32_t top = 0;
        for (std::size_t i = 0; i < size; ++i) {
            top = std::max(top, v[i]);
            numbers[b * block_length + i] = static_cast<Number>(v[i]);
        }
        if (top >= chunks.levels)
            throw MessageError("the message has a level beyond its " + std::to_string(chunks.levels));
    });
    in_parallel_rows(chunks.count, count, [&](std::size_t j) {
        const std::size_t of = chunks.chosen[j] * chunks.length, begin = j * chunks.length;
        const Frame frame{chunks.positions + of, chunks.signs + of, chunks.length, chunks.log2n};
        const FrameSum sum{static_cast<float>(chunks.levels - 1), chunks.steps[j], chunks.power, chunks.weight};
        add_chunk(numbers + (j << chunks.log2n), frame, sum, out + begin, std::min(chunks.length, n - begin));
    });
}

// Adds what the numbers of an integers section that fills data stand for. Each chunk has a number in `chosen`, that of its
// row in positions and signs. Everything is read and checked before anything is added.
void add_frames(BytesIn data, FloatsOut out, unsigned levels, unsigned log2n, WordsIn chosen, IndexRows positions,
                FloatRows signs, FloatsIn steps, float power, float weight) {
    using namespace gradwire;
    const std::size_t chunks = chosen.size(), length = positions.shape(1), n = out.size(), frames = positions.shape(0);
    if (log2n > kashin_longest || levels < 2 || levels > most_levels || length == 0 || parts_of(n, length) != chunks ||
        steps.size() != chunks || signs.shape(0) != frames || signs.shape(1) != length)
        throw nb::value_error("the arrays' lengths do not fit");
    for (std::size_t i = 0; i < frames * length; ++i)
        if (positions.data()[i] >> log2n != 0) throw nb::value_error("a position is beyond the transform's length");
    for (std::size_t j = 0; j < chunks; ++j)
        if (chosen.data()[j] >= frames) throw nb::value_error("a chunk has a frame that is not there");
    nb::gil_scoped_release release;
    const std::size_t count = chunks << log2n;
    std::vector<Block> blocks;
    ByteReader reader(data.data(), data.size());
    for (std::size_t first = 0; first < count; first += block_length)
        blocks.push_back(read_block(reader, std::min(block_length, count - first)));
    if (reader.left() != 0)
        throw MessageError("the message has " + std::to_string(reader.left()) + " bytes too many");
    const FrameChunks task{chunks, length, log2n, chosen.data(), positions.data(), signs.data(), steps.data(), levels,
                           power, weight};
    const auto add = levels <= 256 ? &add_checked<std::uint8_t> : &add_checked<std::uint16_t>;
    add(blocks, task, out.data(), n);
}

}  // namespace

void bind_hadamard(nb::module_& m) {
    m.def("hadamard", [](FloatsIn x, unsigned log2n) {
        const std::size_t rows = rows_of(x.size(), log2n, gradwire::hadamard_longest);
        auto out = uninitialised<float>(x.size());
        {
            nb::gil_scoped_release release;
            in_parallel_rows(rows, x.size(), [&](std::size_t r) {
                float* const row = out.get() + (r << log2n);
                std::copy_n(x.data() + (r << log2n), std::size_t{1} << log2n, row);
                hadamard_kernels().transform(row, log2n);
            });
        }
        return owned_array(std::move(out), x.size());
    });
    m.def("encode_coefficients", &encode_coefficients);
    m.def("add_frames", &add_frames);
    m.def("represent", [](FloatsIn y, WordsIn positions, FloatsIn signs, unsigned log2n, FloatsIn goals, int rounds) {
        if (log2n > gradwire::kashin_longest) throw nb::value_error("the transform's length is too large");
        const std::size_t n = std::size_t{1} << log2n, count = positions.size(), rows = goals.size();
        if (signs.size() != count || y.size() != rows * count) throw nb::value_error("the arrays' lengths do not fit");
        for (std::size_t i = 0; i < count; ++i)
            if (positions.data()[i] >= n || (i > 0 && positions.data()[i] <= positions.data()[i - 1]))
                throw nb::value_error("positions ascend below the transform's length");
        const SpareArray<float> out(rows << log2n), largest(rows);
        {
            nb::gil_scoped_release release;
            const gradwire::Frame frame{positions.data(), signs.data(), count, log2n};
            in_parallel_rows(rows, rows << log2n, [&](std::size_t r) {
                float scratch[3 << gradwire::kashin_longest];
                largest.data()[r] = hadamard_kernels().represent(y.data() + r * count, frame, goals.data()[r], rounds,
                                                                 out.data() + (r << log2n), scratch);
            });
        }
        return nb::make_tuple(out.array(rows << log2n), largest.array(rows));
    });
}
