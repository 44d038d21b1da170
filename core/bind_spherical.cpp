#include <nanobind/stl/pair.h>

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
#include "spherical_found.hpp"
#include "threads.hpp"
#include "values.hpp"

namespace {

using namespace gradwire;

using LongsIn = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::unique_ptr<T[]> buffer(std::size_t size) {
    return std::make_unique_for_overwrite<T[]>(size);
}

BlockSplit checked_split(std::size_t n, std::size_t m) {
    if (m == 0 || m > n || n > spherical::longest * m)
        throw nb::value_error("the vector does not make that many blocks of 1 … 256 entries");
    return {n, m};
}

// Blocks whose entries stay in the cache.
std::size_t chunk_of(const BlockSplit& split) { return std::max<std::size_t>(1, part_length / split.most()); }

void make_found(FoundBlocks* self, LongsIn index, FloatsIn gain, std::size_t n) {
    const BlockSplit split = checked_split(n, gain.size());
    if (index.size() != split.m) throw nb::value_error("index and gain differ in length");
    for (std::size_t b = 0; b < split.m; ++b) {
        const float g = gain.data()[b];
        if (index.data()[b] >> spherical::index_bits) throw nb::value_error("a point's number reaches 2^40");
        if (!(g == 0 || g == spherical::raw_gain || (g > 0 && std::isnormal(g))))
            throw nb::value_error("a gain is neither 0, −1, nor a positive normal number");
    }
    FoundBlocks found(split, chunk_of(split));
    for (std::size_t c = 0; c < found.chunks(); ++c)
        found.put(c, index.data() + found.first(c), gain.data() + found.first(c));
    new (self) FoundBlocks(std::move(found));
}

auto gains_of(const FoundBlocks& found) {
    const SpareArray<float> gain(found.split().m);
    for (std::size_t c = 0; c < found.chunks(); ++c) found.gains(c, gain.data() + found.first(c));
    return gain.array(found.split().m);
}

auto points_of(const FoundBlocks& found) {
    const SpareArray<std::uint64_t> index(found.split().m);
    for (FoundReader blocks(found, true); blocks.next();)
        std::copy_n(blocks.index(), blocks.count(), index.data() + blocks.first());
    return index.array(found.split().m);
}

// Of a chunk of blocks.
struct SearchBuffers {
    SearchBuffers(const BlockSplit& split, std::size_t count)
        : points(buffer<float>(point_rows(split.most()) * spherical::tile)),
          units(buffer<float>(count * split.most())),
          energies(buffer<double>(count)),
          active(buffer<std::uint32_t>(count)),
          index(buffer<std::uint64_t>(count)),
          gain(buffer<float>(count)) {}
    SearchScratch scratch() const { return {points.get(), units.get(), energies.get(), active.get()}; }

    std::unique_ptr<float[]> points, units;
    std::unique_ptr<double[]> energies;
    std::unique_ptr<std::uint32_t[]> active;
    std::unique_ptr<std::uint64_t[]> index;
    std::unique_ptr<float[]> gain;
};

FoundBlocks search(FloatsIn x, std::size_t m, double alpha, std::uint64_t seed, std::uint64_t pair_limit) {
    const BlockSplit split = checked_split(x.size(), m);
    if (!(alpha > 0 && alpha < 1)) throw nb::value_error("alpha lies between 0 and 1");
    if (pair_limit > std::uint64_t{1} << (spherical::index_bits - 1)) throw nb::value_error("pair_limit passes 2^39");
    const nb::gil_scoped_release release;
    const SphericalSearch task{x.data(), split, alpha, seed, pair_limit};
    FoundBlocks found(split, spherical_chunk(split, threads()));
    // The limit is some 32 times the pairs that are due for a block; of these many products are a thread's least work.
    const std::size_t products = split.n * std::min<std::uint64_t>(pair_limit / 32, worth_threads);
    in_parallel(found.chunks(), products / 32, [&](std::size_t c) {
        const SearchBuffers buffers(split, found.count(c));
        spherical_search(task, found.first(c), found.count(c), buffers.scratch(), buffers.index.get(), buffers.gain.get());
        found.put(c, buffers.index.get(), buffers.gain.get());
    });
    return found;
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

// take(begin, size, numbers) gets the m numbers of an integers section, some at a time.
template <class Take>
void read_section(ByteReader& reader, std::size_t m, const Take& take) {
    const std::size_t most = std::min(m, block_length);
    const auto tokens = buffer<std::uint8_t>(most);
    const Spare memory(sizeof(std::uint32_t) * most);
    auto* const v = reinterpret_cast<std::uint32_t*>(memory.data());
    for (std::size_t begin = 0; begin < m; begin += block_length) {
        const std::size_t count = std::min(block_length, m - begin);
        decode_numbers(read_block(reader, count), tokens.get(), v);
        take(begin, count, v);
    }
}

// In two pieces: head and sections, and the bit stream.
nb::list encode(FloatsIn x, const FoundBlocks& found) {
    if (x.size() != found.split().n) throw nb::value_error("the blocks were found in a vector of another length");
    std::vector<std::uint8_t> first(2);
    std::optional<Spare> bits;
    std::uint64_t count = 0;
    {
        const nb::gil_scoped_release release;
        auto [head, there, bits_bound, norm_bits] = choose_head(found);
        if (head.zeros) {
            GainReader gains(found);
            append_section(first, found.split().m, [&](std::size_t, std::size_t size, std::uint32_t* marks) {
                for (std::size_t b = 0; b < size; ++b) marks[b] = *gains.next() == 0;
            });
        }
        // Many norms take less in a section, as a rule: then the bits are written once.
        head.sectioned = there >= section_least;
        std::vector<std::uint8_t> section;
        bits.emplace(bits_bound);
        in_parallel(2, there * found.split().most(), [&, &head = head, &there = there](std::size_t task) {
            if (task == 0) {
                count = write_bits(x.data(), found, head, bits->data());
            } else if (head.sectioned) {
                Norms norms(found, head);
                append_section(section, there,
                               [&](std::size_t, std::size_t size, std::uint32_t* out) { norms.read(out, size); });
            }
        });
        if (head.sectioned && parts_of(count + norm_bits, 8) <= section.size() + parts_of(count, 8)) {
            head.sectioned = false;
            section.clear();
            count = write_bits(x.data(), found, head, bits->data());
        }
        write_head(head, first.data());
        first.insert(first.end(), section.begin(), section.end());
    }
    nb::list pieces;
    pieces.append(nb::bytes(first.data(), first.size()));
    pieces.append(view_of(std::move(*bits), parts_of(count, 8)));
    return pieces;
}

// All blocks of a bit stream; zero, unless it is empty, tells which are of zeros. One thread reads, and another puts away what
// was read just before.
FoundBlocks read_blocks(BlockReader& blocks, const BlockSplit& split, const std::vector<bool>& zero) {
    FoundBlocks found(split, chunk_of(split));
    constexpr std::size_t together = 8;
    struct Group {
        std::unique_ptr<std::uint64_t[]> index;
        std::unique_ptr<float[]> gain;
        std::vector<float> raw[together];
    };
    const std::size_t groups = parts_of(found.chunks(), together), room = std::min(split.m, together * found.chunk());
    Group two[2];
    for (Group& group : two) group = {buffer<std::uint64_t>(room), buffer<float>(room), {}};
    const auto each_chunk = [&](std::size_t g, const auto& work) {
        const std::size_t end = std::min(found.chunks(), (g + 1) * together);
        for (std::size_t c = g * together; c < end; ++c) {
            const std::size_t at = (c - g * together) * found.chunk();
            work(c, two[g % 2].index.get() + at, two[g % 2].gain.get() + at, two[g % 2].raw[c - g * together]);
        }
    };
    for (std::size_t g = 0; g <= groups; ++g)
        in_parallel(2, split.n, [&](std::size_t task) {
            if (task == 0 && g < groups)
                each_chunk(g, [&](std::size_t c, std::uint64_t* index, float* gain, std::vector<float>& raw) {
                    const std::size_t first = found.first(c), count = found.count(c);
                    for (std::size_t b = 0; b < count; ++b) gain[b] = !zero.empty() && zero[first + b] ? 0.0f : 1.0f;
                    raw.clear();
                    blocks.read(count, index, gain, raw);
                });
            if (task == 1 && g > 0)
                each_chunk(g - 1, [&](std::size_t c, const std::uint64_t* index, const float* gain, std::vector<float>& raw) {
                    found.put(c, index, gain, std::move(raw));
                });
        });
    return found;
}

std::pair<FoundBlocks, std::size_t> decode(BytesIn data, std::size_t n, std::size_t m) {
    const BlockSplit split = checked_split(n, m);
    const nb::gil_scoped_release release;
    ByteReader reader(data.data(), data.size());
    const SphericalHead head = read_head(reader);
    std::size_t there = m;
    std::vector<bool> zero(head.zeros ? m : 0);
    if (head.zeros)
        read_section(reader, m, [&](std::size_t begin, std::size_t size, const std::uint32_t* marks) {
            for (std::size_t b = 0; b < size; ++b) {
                if (marks[b] > 1)
                    throw MessageError("the message marks blocks of zeros with a number that is neither 0 nor 1");
                zero[begin + b] = marks[b];
                there -= marks[b];
            }
        });
    const Spare memory(sizeof(std::uint16_t) * (head.sectioned ? there : 0));
    auto* const norms = reinterpret_cast<std::uint16_t*>(memory.data());
    if (head.sectioned)
        read_section(reader, there, [&](std::size_t begin, std::size_t size, const std::uint32_t* v) {
            for (std::size_t b = 0; b < size; ++b) {
                if (v[b] >= norm_limit) throw MessageError("the message has a norm that version 1 does not know");
                norms[begin + b] = static_cast<std::uint16_t>(v[b]);
            }
        });
    BlockReader blocks(reader, split, head, norms);
    FoundBlocks found = read_blocks(blocks, split, zero);
    blocks.finish();
    return {std::move(found), data.size() - reader.left()};
}

// take(begin, size, values) gets the values of all blocks, a chunk at a time and on several threads.
template <class Take>
void each_value(const FoundBlocks& found, std::uint64_t seed, std::size_t n, const Take& take) {
    const BlockSplit& split = found.split();
    if (n != split.n) throw nb::value_error("the blocks are of a vector of another length");
    if (found.lacks_entries()) throw nb::value_error("entries of blocks that are sent as they are come with a message only");
    const nb::gil_scoped_release release;
    in_parallel(found.chunks(), n, [&](std::size_t c) {
        const std::size_t count = found.count(c), begin = found.begin(c);
        const std::size_t size = split.begin(found.first(c) + count) - begin;
        const auto scratch = buffer<float>(point_rows(split.most()) * spherical::tile), values = buffer<float>(size);
        const auto index = buffer<std::uint64_t>(count);
        const auto gain = buffer<float>(count);
        found.points(c, gain.get(), index.get());
        spherical_values(split, seed, found.first(c), count, index.get(), gain.get(), found.raw(c).data(), scratch.get(),
                         values.get());
        take(begin, size, values.get());
    });
}

void values(const FoundBlocks& found, std::uint64_t seed, FloatsOut out) {
    each_value(found, seed, out.size(),
               [&](std::size_t begin, std::size_t size, const float* v) { std::copy_n(v, size, out.data() + begin); });
}

void add(const FoundBlocks& found, std::uint64_t seed, FloatsOut out, float weight) {
    each_value(found, seed, out.size(), [&](std::size_t begin, std::size_t size, const float* v) {
        value_kernels().add_dense(out.data() + begin, v, size, weight);
    });
}

}  // namespace

void bind_spherical(nb::module_& m) {
    nb::class_<FoundBlocks>(m, "SphericalBlocks")
        .def("__init__", &make_found, nb::arg("index"), nb::arg("gain"), nb::arg("n"))
        .def_prop_ro("index", &points_of, nb::rv_policy::automatic)
        .def_prop_ro("gain", &gains_of, nb::rv_policy::automatic)
        .def("__sizeof__", &FoundBlocks::bytes);
    m.def("spherical_search", &search, nb::arg("x"), nb::arg("m"), nb::arg("alpha"), nb::arg("seed"),
          nb::arg("pair_limit"));
    m.def("encode_spherical", &encode, nb::arg("x"), nb::arg("found"));
    m.def("decode_spherical", &decode, nb::arg("data"), nb::arg("n"), nb::arg("m"));
    m.def("spherical_values", &values, nb::arg("found"), nb::arg("seed"), nb::arg("out"));
    m.def("add_spherical", &add, nb::arg("found"), nb::arg("seed"), nb::arg("out"), nb::arg("weight"));
}
