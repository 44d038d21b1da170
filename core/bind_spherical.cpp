#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "bind_blocks.hpp"
#include "bindings.hpp"
#include "integers.hpp"
#include "spare.hpp"
#include "spare_array.hpp"
#include "spherical_code.hpp"
#include "threads.hpp"

namespace {

using namespace gradwire;

using LongsIn = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::unique_ptr<T[]> buffer(std::size_t size) {
    return std::make_unique_for_overwrite<T[]>(size);
}

void check_split(std::size_t n, std::size_t m) {
    if (m == 0 || m > n || n > spherical::longest * m)
        throw nb::value_error("the vector does not make that many blocks of 1 … 256 entries");
}

void check_gains(PointNumbers index, FloatsIn gain) {
    for (std::size_t b = 0; b < gain.size(); ++b) {
        const float g = gain.data()[b];
        if (index[b] >> spherical::index_bits) throw nb::value_error("a point's number reaches 2^40");
        if (!(g == 0 || g == spherical::raw_gain || (g > 0 && std::isnormal(g))))
            throw nb::value_error("a gain is neither 0, −1, nor a positive normal number");
    }
}

// Of a chunk of blocks.
struct SearchBuffers {
    SearchBuffers(const BlockSplit& split, std::size_t count)
        : points(buffer<float>(point_rows(split.most()) * spherical::tile)),
          units(buffer<float>(count * split.most())),
          energies(buffer<double>(count)),
          active(buffer<std::uint32_t>(count)),
          index(buffer<std::uint64_t>(count)) {}
    SearchScratch scratch() const { return {points.get(), units.get(), energies.get(), active.get()}; }

    std::unique_ptr<float[]> points, units;
    std::unique_ptr<double[]> energies;
    std::unique_ptr<std::uint32_t[]> active;
    std::unique_ptr<std::uint64_t[]> index;
};

// Index is wide enough for every point that is tried.
template <class Index>
nb::tuple searched(const SphericalSearch& task) {
    const std::size_t n = task.split.n, m = task.split.m;
    const SpareArray<Index> index(m);
    const SpareArray<float> gain(m);
    {
        nb::gil_scoped_release release;
        const std::size_t chunk = spherical_chunk(task.split, threads());
        // The limit is some 32 times the pairs that are due for a block; of these many products are a thread's least work.
        const std::size_t products = n * std::min<std::uint64_t>(task.pair_limit / 32, worth_threads);
        in_parallel(parts_of(m, chunk), products / 32, [&](std::size_t c) {
            const std::size_t first = c * chunk, count = std::min(chunk, m - first);
            const SearchBuffers buffers(task.split, count);
            spherical_search(task, first, count, buffers.scratch(), buffers.index.get(), gain.data() + first);
            for (std::size_t b = 0; b < count; ++b) index.data()[first + b] = static_cast<Index>(buffers.index[b]);
        });
    }
    return nb::make_tuple(index.array(m), gain.array(m));
}

nb::tuple search(FloatsIn x, std::size_t m, double alpha, std::uint64_t seed, std::uint64_t pair_limit) {
    check_split(x.size(), m);
    if (!(alpha > 0 && alpha < 1)) throw nb::value_error("alpha lies between 0 and 1");
    if (pair_limit > std::uint64_t{1} << (spherical::index_bits - 1)) throw nb::value_error("pair_limit passes 2^39");
    const SphericalSearch task{x.data(), {x.size(), m}, alpha, seed, pair_limit};
    const bool narrow = pair_limit <= std::uint64_t{1} << 31;  // of a pair 2j and 2j + 1 are tried
    return narrow ? searched<std::uint32_t>(task) : searched<std::uint64_t>(task);
}

// An integers section of m numbers; fill(begin, size, out) gives some.
template <class Fill>
void append_section(std::vector<std::uint8_t>& out, std::size_t m, const Fill& fill) {
    const std::size_t most = std::min(m, block_length);
    const Spare memory(sizeof(std::uint32_t) * most);
    auto* const v = reinterpret_cast<std::uint32_t*>(memory.data());
    const auto tokens = buffer<std::uint8_t>(most), extra = buffer<std::uint8_t>(extra_bound(most));
    const auto stack = buffer<std::uint16_t>(most + stack_slack);
    const auto block = buffer<std::uint8_t>(block_bound(most, 29 * most));
    for (std::size_t begin = 0; begin < m; begin += block_length) {
        const std::size_t count = std::min(block_length, m - begin);
        fill(begin, count, v);
        TokenWriter numbers(tokens.get(), extra.get());
        numbers.put(v, count);
        const std::size_t size = encode_block(numbers.finish(), stack.get(), block.get());
        out.insert(out.end(), block.get(), block.get() + size);
    }
}

void read_section(ByteReader& reader, std::uint32_t* v, std::size_t m) {
    const auto tokens = buffer<std::uint8_t>(std::min(m, block_length));
    for (std::size_t begin = 0; begin < m; begin += block_length)
        decode_numbers(read_block(reader, std::min(block_length, m - begin)), tokens.get(), v + begin);
}

// The points' numbers as `search` gave them.
PointNumbers numbers_of(nb::handle index, std::size_t m) {
    WordsIn narrow;
    LongsIn wide;
    const bool fits = nb::try_cast(index, narrow, false);
    if (!fits && !nb::try_cast(index, wide, false)) throw nb::type_error("the index is of uint32 or uint64");
    if ((fits ? narrow.size() : wide.size()) != m) throw nb::value_error("index and gain differ in length");
    return fits ? PointNumbers(narrow.data()) : PointNumbers(wide.data());
}

// In two pieces: head and sections, and the bit stream.
nb::list encode(FloatsIn x, nb::handle index_array, FloatsIn gain) {
    const std::size_t m = gain.size();
    const PointNumbers index = numbers_of(index_array, m);
    check_split(x.size(), m);
    std::vector<std::uint8_t> first(2);
    std::optional<Spare> bits;
    std::uint64_t count = 0;
    {
        nb::gil_scoped_release release;
        check_gains(index, gain);
        const BlockSplit split{x.size(), m};
        auto [head, there, norm_bits] = choose_head(index, gain.data(), m);
        if (head.zeros)
            append_section(first, m, [&](std::size_t begin, std::size_t size, std::uint32_t* marks) {
                for (std::size_t b = 0; b < size; ++b) marks[b] = gain.data()[begin + b] == 0;
            });
        // Many norms take less in a section, as a rule: then the bits are written once.
        head.sectioned = there >= section_least;
        std::vector<std::uint8_t> section;
        if (head.sectioned) {
            Norms norms(gain.data(), m, head);
            append_section(section, there, [&](std::size_t, std::size_t size, std::uint32_t* out) { norms.read(out, size); });
        }
        bits.emplace(bits_bound(gain.data(), split));
        const auto write = [&] { return write_bits(x.data(), split, index, gain.data(), head, bits->data()); };
        count = write();
        if (head.sectioned && parts_of(count + norm_bits, 8) <= section.size() + parts_of(count, 8)) {
            head.sectioned = false;
            section.clear();
            count = write();
        }
        write_head(head, first.data());
        first.insert(first.end(), section.begin(), section.end());
    }
    nb::list pieces;
    pieces.append(nb::bytes(first.data(), first.size()));
    pieces.append(view_of(std::move(*bits), parts_of(count, 8)));
    return pieces;
}

nb::tuple decode(BytesIn data, std::size_t n, std::size_t m) {
    check_split(n, m);
    const SpareArray<std::uint64_t> index(m);
    const SpareArray<float> gain(m), values(n);
    ByteReader reader(data.data(), data.size());
    {
        nb::gil_scoped_release release;
        const SphericalHead head = read_head(reader);
        const Spare memory(sizeof(std::uint32_t) * m);
        auto* const numbers = reinterpret_cast<std::uint32_t*>(memory.data());
        std::size_t there = m;
        std::fill_n(gain.data(), m, 1.0f);
        if (head.zeros) {
            read_section(reader, numbers, m);
            for (std::size_t b = 0; b < m; ++b) {
                if (numbers[b] > 1)
                    throw MessageError("the message marks blocks of zeros with a number that is neither 0 nor 1");
                gain.data()[b] = static_cast<float>(1 - numbers[b]);
                there -= numbers[b];
            }
        }
        if (head.sectioned) read_section(reader, numbers, there);
        read_bits(reader, {n, m}, head, numbers, index.data(), gain.data(), values.data());
    }
    return nb::make_tuple(index.array(m), gain.array(m), values.array(n), data.size() - reader.left());
}

void points(std::uint64_t seed, LongsIn index, FloatsIn gain, FloatsOut out) {
    check_split(out.size(), gain.size());
    if (index.size() != gain.size()) throw nb::value_error("index and gain differ in length");
    nb::gil_scoped_release release;
    check_gains(PointNumbers(index.data()), gain);
    const BlockSplit split{out.size(), gain.size()};
    in_parallel_pieces(split.m, std::max<std::size_t>(1, part_length / split.most()), out.size(),
                       [&](std::size_t first, std::size_t count) {
                           const auto scratch = buffer<float>(point_rows(split.most()) * spherical::tile);
                           spherical_points(split, seed, first, count, index.data(), gain.data(), scratch.get(), out.data());
                       });
}

}  // namespace

void bind_spherical(nb::module_& m) {
    m.def("spherical_search", &search, nb::arg("x"), nb::arg("m"), nb::arg("alpha"), nb::arg("seed"),
          nb::arg("pair_limit"));
    m.def("encode_spherical", &encode, nb::arg("x"), nb::arg("index"), nb::arg("gain"));
    m.def("decode_spherical", &decode, nb::arg("data"), nb::arg("n"), nb::arg("m"));
    m.def("spherical_points", &points, nb::arg("seed"), nb::arg("index"), nb::arg("gain"), nb::arg("out"));
}
