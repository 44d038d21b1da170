#include "bindings.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

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

void check_gains(LongsIn index, FloatsIn gain) {
    if (index.size() != gain.size()) throw nb::value_error("index and gain differ in length");
    for (std::size_t b = 0; b < gain.size(); ++b) {
        const float g = gain.data()[b];
        if (index.data()[b] >> spherical::index_bits) throw nb::value_error("a point's number reaches 2^40");
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
          active(buffer<std::uint32_t>(count)) {}
    SearchScratch scratch() const { return {points.get(), units.get(), energies.get(), active.get()}; }

    std::unique_ptr<float[]> points, units;
    std::unique_ptr<double[]> energies;
    std::unique_ptr<std::uint32_t[]> active;
};

nb::tuple search(FloatsIn x, std::size_t m, double alpha, std::uint64_t seed, std::uint64_t pair_limit) {
    check_split(x.size(), m);
    if (!(alpha > 0 && alpha < 1)) throw nb::value_error("alpha lies between 0 and 1");
    if (pair_limit > std::uint64_t{1} << (spherical::index_bits - 1)) throw nb::value_error("pair_limit passes 2^39");
    const SpareArray<std::uint64_t> index(m);
    const SpareArray<float> gain(m);
    {
        nb::gil_scoped_release release;
        const SphericalSearch task{x.data(), {x.size(), m}, alpha, seed, pair_limit};
        const std::size_t chunk = spherical_chunk(task.split, threads());
        // The limit is some 32 times the pairs that are due for a block; of these many products are a thread's least work.
        const std::size_t products = x.size() * std::min<std::uint64_t>(pair_limit / 32, worth_threads);
        in_parallel(parts_of(m, chunk), products / 32, [&](std::size_t c) {
            const std::size_t first = c * chunk, count = std::min(chunk, m - first);
            const SearchBuffers buffers(task.split, count);
            spherical_search(task, first, count, buffers.scratch(), index.data(), gain.data());
        });
    }
    return nb::make_tuple(index.array(m), gain.array(m));
}

void append_section(std::vector<std::uint8_t>& out, const std::uint32_t* v, std::size_t m) {
    const std::size_t most = std::min(m, block_length);
    const auto tokens = buffer<std::uint8_t>(most), extra = buffer<std::uint8_t>(extra_bound(most));
    const auto stack = buffer<std::uint16_t>(most + stack_slack);
    const auto block = buffer<std::uint8_t>(block_bound(most, 29 * most));
    for (std::size_t begin = 0; begin < m; begin += block_length) {
        TokenWriter numbers(tokens.get(), extra.get());
        numbers.put(v + begin, std::min(block_length, m - begin));
        const std::size_t size = encode_block(numbers.finish(), stack.get(), block.get());
        out.insert(out.end(), block.get(), block.get() + size);
    }
}

void read_section(ByteReader& reader, std::uint32_t* v, std::size_t m) {
    const auto tokens = buffer<std::uint8_t>(std::min(m, block_length));
    for (std::size_t begin = 0; begin < m; begin += block_length)
        decode_numbers(read_block(reader, std::min(block_length, m - begin)), tokens.get(), v + begin);
}

nb::bytes encode(FloatsIn x, LongsIn index, FloatsIn gain) {
    const std::size_t m = gain.size();
    check_split(x.size(), m);
    std::vector<std::uint8_t> payload(2);
    {
        nb::gil_scoped_release release;
        check_gains(index, gain);
        const BlockSplit split{x.size(), m};
        SphericalHead head = choose_head(index.data(), gain.data(), m);
        const Spare numbers(sizeof(std::uint32_t) * m);
        auto* const norms = reinterpret_cast<std::uint32_t*>(numbers.data());
        if (head.zeros) {
            for (std::size_t b = 0; b < m; ++b) norms[b] = gain.data()[b] == 0;
            append_section(payload, norms, m);
        }
        const std::size_t there = write_norms(gain.data(), m, head, norms);
        const Spare bits(bits_bound(gain.data(), split));
        const auto write = [&] {
            return write_bits(x.data(), split, index.data(), gain.data(), norms, head, bits.data());
        };
        // Many norms take less in a section, as a rule: then the bits are written once.
        head.sectioned = there >= section_least;
        std::vector<std::uint8_t> section;
        if (head.sectioned) append_section(section, norms, there);
        std::uint64_t count = write();
        if (head.sectioned &&
            parts_of(count + gamma_bits(norms, there), 8) <= section.size() + parts_of(count, 8)) {
            head.sectioned = false;
            section.clear();
            count = write();
        }
        write_head(head, payload.data());
        payload.insert(payload.end(), section.begin(), section.end());
        payload.insert(payload.end(), bits.data(), bits.data() + parts_of(count, 8));
    }
    return nb::bytes(payload.data(), payload.size());
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
    nb::gil_scoped_release release;
    check_gains(index, gain);
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
