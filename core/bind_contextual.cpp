#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "contextual.hpp"
#include "dithered.hpp"
#include "philox.hpp"
#include "spare.hpp"
#include "threads.hpp"

namespace {

using namespace gradwire;

using TablesIn = nb::ndarray<const std::uint16_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using CountsIn = nb::ndarray<const std::uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<2>> owned_tables(std::unique_ptr<T[]> data, std::size_t tables) {
    T* raw = data.release();
    nb::capsule owner(raw, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return {raw, {tables, context_tokens}, owner};
}

// Not initialised: kernels write before they read, and what is not used costs no page.
template <class T>
std::unique_ptr<T[]> buffer(std::size_t size) {
    return std::unique_ptr<T[]>(new T[size]);
}

void check_contexts(BytesIn contexts, std::size_t m, std::size_t tables) {
    if (tables < 1 || tables > most_contexts) throw nb::value_error("there are 1 to 16 contexts");
    if (contexts.size() != m) throw nb::value_error("each number needs one context");
    std::uint8_t largest = 0;
    for (std::size_t i = 0; i < m; ++i) largest = std::max(largest, contexts.data()[i]);
    if (largest >= tables) throw nb::value_error("a context has no table");
}

void check_tables(TablesIn tables) {
    if (tables.shape(1) != context_tokens) throw nb::value_error("a table has 141 frequencies");
    if (!tables_are_valid(tables.data(), static_cast<unsigned>(tables.shape(0))))
        throw nb::value_error("the frequencies of a table sum to 4096");
}

// What a block is made in.
class BlockScratch {
public:
    explicit BlockScratch(std::size_t m)
        : symbols_(2 * m), extra_(context_extra_bound(m)), stack_(2 * (m + stack_slack)), block_(context_block_bound(m)) {}
    ContextScratch parts() const {
        return {reinterpret_cast<std::uint16_t*>(symbols_.data()), extra_.data(),
                reinterpret_cast<std::uint16_t*>(stack_.data())};
    }
    std::uint8_t* block() const { return block_.data(); }

private:
    Spare symbols_, extra_, stack_, block_;
};

// The section of n numbers, whose blocks encode(first, size, table, scratch, out) makes.
template <class Encode>
nb::bytes encoded_section(std::size_t n, const TablesIn& tables, const Encode& encode) {
    using Bytes = std::vector<std::uint8_t>;
    std::vector<Bytes> blocks(parts_of(n, block_length));
    std::atomic<bool> coded{true};
    Bytes section;
    {
        nb::gil_scoped_release release;
        const auto table = std::unique_ptr<ContextEncodeTable>(new ContextEncodeTable);
        fill_encode_table(tables.data(), static_cast<unsigned>(tables.shape(0)), *table);
        in_parallel_pieces(n, block_length, [&](std::size_t first, std::size_t m) {
            const BlockScratch scratch(m);
            const std::size_t size = encode(first, m, *table, scratch.parts(), scratch.block());
            blocks[first / block_length].assign(scratch.block(), scratch.block() + size);
            if (size == 0) coded = false;
        });
        for (const Bytes& block : blocks) section.insert(section.end(), block.begin(), block.end());
    }
    if (!coded) throw nb::value_error("a number has neither a frequency nor an escape in its table");
    return nb::bytes(section.data(), section.size());
}

nb::bytes encode_contextual(WordsIn v, BytesIn contexts, TablesIn tables) {
    check_contexts(contexts, v.size(), tables.shape(0));
    check_tables(tables);
    return encoded_section(v.size(), tables,
                           [&](std::size_t first, std::size_t m, const ContextEncodeTable& table,
                               const ContextScratch& scratch, std::uint8_t* out) -> std::size_t {
                               ContextBlockWriter writer(table, scratch);
                               if (!writer.put(v.data() + first, contexts.data() + first, m)) return 0;
                               return writer.finish(out);
                           });
}

std::vector<ContextBlock> read_blocks(ByteReader& reader, std::size_t n) {
    std::vector<ContextBlock> blocks;
    for (std::size_t first = 0; first < n; first += block_length)
        blocks.push_back(read_context_block(reader, std::min(block_length, n - first)));
    return blocks;
}

std::unique_ptr<ContextDecodeTable> decode_table(const TablesIn& tables) {
    auto table = std::unique_ptr<ContextDecodeTable>(new ContextDecodeTable);
    fill_decode_table(tables.data(), static_cast<unsigned>(tables.shape(0)), *table);
    return table;
}

nb::tuple decode_contextual(BytesIn data, BytesIn contexts, TablesIn tables) {
    const std::size_t m = contexts.size();
    check_contexts(contexts, m, tables.shape(0));
    check_tables(tables);
    auto v = uninitialised<std::uint32_t>(m);
    ByteReader reader(data.data(), data.size());
    {
        nb::gil_scoped_release release;
        const auto table = decode_table(tables);
        const std::vector<ContextBlock> blocks = read_blocks(reader, m);
        in_parallel(blocks.size(), m, [&](std::size_t b) {
            decode_in_context(blocks[b], contexts.data() + b * block_length, *table, v.get() + b * block_length);
        });
    }
    return nb::make_tuple(owned_array(std::move(v), m), data.size() - reader.left());
}

// Counts of 16 contexts of n numbers; count(first, size, counter) counts those of a block.
template <class Count>
nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<2>> counted(std::size_t n, const Count& count) {
    auto counts = std::make_unique<std::uint64_t[]>(most_contexts * context_tokens);
    {
        nb::gil_scoped_release release;
        std::mutex mutex;
        in_parallel_pieces(n, block_length, [&](std::size_t first, std::size_t m) {
            ContextCounter counter;
            count(first, m, counter);
            const std::lock_guard lock(mutex);
            counter.add_to(counts.get(), most_contexts);
        });
    }
    return owned_tables(std::move(counts), most_contexts);
}

auto count_contextual(WordsIn v, BytesIn contexts) {
    check_contexts(contexts, v.size(), most_contexts);
    return counted(v.size(), [&](std::size_t first, std::size_t m, ContextCounter& counter) {
        counter.add(v.data() + first, contexts.data() + first, m);
    });
}

auto count_dithered_(FloatsIn x, float inverse, std::uint64_t seed) {
    return counted(x.size(), [&](std::size_t first, std::size_t m, ContextCounter& counter) {
        count_dithered(x.data(), first, m, {inverse, seed}, counter);
    });
}

unsigned bits_of(const TablesIn& tables) {
    const std::size_t count = tables.shape(0);
    if (count == 0 || count > most_contexts || !std::has_single_bit(count))
        throw nb::value_error("there are 1, 2, 4, 8 or 16 tables");
    return static_cast<unsigned>(std::countr_zero(count));
}

nb::bytes encode_dithered_(FloatsIn x, float inverse, std::uint64_t seed, TablesIn tables) {
    const unsigned bits = bits_of(tables);
    check_tables(tables);
    return encoded_section(x.size(), tables,
                           [&](std::size_t first, std::size_t m, const ContextEncodeTable& table,
                               const ContextScratch& scratch, std::uint8_t* out) {
                               return encode_dithered(x.data(), first, m, {inverse, seed}, bits, table, scratch, out);
                           });
}

// Everything is read and checked before anything is added.
void add_dithered_(BytesIn data, FloatsOut out, TablesIn tables, std::uint64_t seed, float step, float power,
                   float weight) {
    const unsigned bits = bits_of(tables);
    check_tables(tables);
    nb::gil_scoped_release release;
    const std::size_t n = out.size();
    ByteReader reader(data.data(), data.size());
    const std::vector<ContextBlock> blocks = read_blocks(reader, n);
    if (reader.left() != 0)
        throw MessageError("the message has " + std::to_string(reader.left()) + " bytes too many");
    const auto table = decode_table(tables);
    const Spare tokens(n);
    std::vector<std::vector<std::uint32_t>> wide(blocks.size());  // of the blocks that are not plain
    in_parallel(blocks.size(), n, [&](std::size_t b) {
        const Spare contexts(blocks[b].size), numbers(sizeof(std::uint32_t) * blocks[b].size);
        auto* const v = reinterpret_cast<std::uint32_t*>(numbers.data());
        const std::size_t first = b * block_length;
        if (!check_dithered(blocks[b], first, seed, bits, *table, contexts.data(), tokens.data() + first, v))
            wide[b].assign(v, v + blocks[b].size);
    });
    in_parallel(blocks.size(), n, [&](std::size_t b) {
        const std::size_t first = b * block_length;
        const bool plain = wide[b].empty();
        add_dithered({first, blocks[b].size, plain ? tokens.data() + first : nullptr, wide[b].data()},
                     {step, power, weight, true, seed, 0}, out.data());
    });
}

void check_counts(CountsIn counts, std::size_t tables) {
    if (counts.shape(0) != tables || counts.shape(1) != context_tokens)
        throw nb::value_error("a table has 141 counts, and each context one table");
    for (std::size_t c = 0; c < tables; ++c) {
        std::uint64_t sum = 0;
        for (unsigned s = 0; s < context_tokens; ++s)
            sum += std::min(counts.data()[c * context_tokens + s], largest_count_sum + 1);
        if (sum > largest_count_sum) throw nb::value_error("the counts of a table sum to 2^48 at most");
    }
}

nb::ndarray<nb::numpy, std::uint16_t, nb::ndim<2>> normalise_tables(CountsIn counts) {
    const std::size_t tables = counts.shape(0);
    check_counts(counts, tables);
    auto frequencies = buffer<std::uint16_t>(tables * context_tokens);
    for (std::size_t c = 0; c < tables; ++c)
        normalise_in_context(counts.data() + c * context_tokens, frequencies.get() + c * context_tokens);
    return owned_tables(std::move(frequencies), tables);
}

std::uint64_t cost_contextual(CountsIn counts, TablesIn tables) {
    check_tables(tables);
    check_counts(counts, tables.shape(0));
    return cost_in_context(counts.data(), tables.data(), static_cast<unsigned>(tables.shape(0)));
}

nb::tuple fit_tables_(CountsIn counts) {
    check_counts(counts, most_contexts);
    FittedTables fitted;
    fit_tables(counts.data(), fitted);
    std::uint8_t bytes[tables_bound];
    const std::uint8_t* end = write_tables(fitted, bytes);
    const std::size_t tables = std::size_t{1} << fitted.bits;
    auto frequencies = buffer<std::uint16_t>(tables * context_tokens);
    std::copy(fitted.frequencies, fitted.frequencies + tables * context_tokens, frequencies.get());
    return nb::make_tuple(fitted.bits, owned_tables(std::move(frequencies), tables),
                          nb::bytes(bytes, static_cast<std::size_t>(end - bytes)), fitted.cost);
}

nb::tuple decode_tables(BytesIn data, unsigned bits) {
    if (bits > 4) throw nb::value_error("a context has 0 to 4 bits");
    const unsigned tables = 1u << bits;
    auto frequencies = buffer<std::uint16_t>(tables * context_tokens);
    ByteReader reader(data.data(), data.size());
    read_tables(reader, tables, frequencies.get());
    return nb::make_tuple(owned_tables(std::move(frequencies), tables), data.size() - reader.left());
}

nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>> dither_contexts(std::uint64_t seed, std::uint64_t stream,
                                                                  std::size_t n, unsigned bits) {
    if (bits > 4) throw nb::value_error("a context has 0 to 4 bits");
    auto contexts = buffer<std::uint8_t>(n);
    {
        nb::gil_scoped_release release;
        in_parallel_pieces(n, part_length, [&](std::size_t part, std::size_t part_size) {
            constexpr std::size_t piece = 4096;  // random words are made in pieces that stay in the cache
            std::uint32_t words[piece];
            for (std::size_t begin = part; begin < part + part_size; begin += piece) {
                const std::size_t size = std::min(piece, part + part_size - begin);
                philox_words(seed, stream, begin, size, words);
                contexts_of_words(words, size, bits, contexts.get() + begin);
            }
        });
    }
    return owned_array(std::move(contexts), n);
}

}  // namespace

void bind_contextual(nb::module_& m) {
    m.def("encode_contextual", &encode_contextual, nb::arg("v"), nb::arg("contexts"), nb::arg("tables"));
    m.def("decode_contextual", &decode_contextual, nb::arg("data"), nb::arg("contexts"), nb::arg("tables"));
    m.def("count_contextual", &count_contextual, nb::arg("v"), nb::arg("contexts"));
    m.def("count_dithered", &count_dithered_);
    m.def("encode_dithered", &encode_dithered_);
    m.def("add_dithered", &add_dithered_);
    m.def("cost_contextual", &cost_contextual, nb::arg("counts"), nb::arg("tables"));
    m.def("normalise_tables", &normalise_tables, nb::arg("counts"));
    m.def("fit_tables", &fit_tables_, nb::arg("counts"));
    m.def("decode_tables", &decode_tables, nb::arg("data"), nb::arg("bits"));
    m.def("dither_contexts", &dither_contexts, nb::arg("seed"), nb::arg("stream"), nb::arg("n"), nb::arg("bits"));
}
