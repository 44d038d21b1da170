#include <algorithm>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "contextual.hpp"
#include "philox.hpp"

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

nb::bytes encode_contextual(WordsIn v, BytesIn contexts, TablesIn tables) {
    const std::size_t m = v.size();
    check_contexts(contexts, m, tables.shape(0));
    check_tables(tables);
    std::vector<std::uint8_t> section;
    bool coded = true;
    {
        nb::gil_scoped_release release;
        const std::size_t most = std::min(m, block_length);
        const auto table = std::unique_ptr<ContextEncodeTable>(new ContextEncodeTable);
        const auto symbols = buffer<std::uint16_t>(most);
        const auto extra = buffer<std::uint8_t>(context_extra_bound(most));
        const auto stack = buffer<std::uint16_t>(most + stack_slack);
        const auto block = buffer<std::uint8_t>(context_block_bound(most));
        fill_encode_table(tables.data(), static_cast<unsigned>(tables.shape(0)), *table);
        for (std::size_t begin = 0; begin < m && coded; begin += block_length) {
            const std::size_t size =
                encode_in_context(v.data() + begin, contexts.data() + begin, std::min(block_length, m - begin), *table,
                                  {symbols.get(), extra.get(), stack.get()}, block.get());
            section.insert(section.end(), block.get(), block.get() + size);
            coded = size != 0;
        }
    }
    if (!coded) throw nb::value_error("a number has neither a frequency nor an escape in its table");
    return nb::bytes(section.data(), section.size());
}

nb::tuple decode_contextual(BytesIn data, BytesIn contexts, TablesIn tables) {
    const std::size_t m = contexts.size();
    check_contexts(contexts, m, tables.shape(0));
    check_tables(tables);
    auto v = buffer<std::uint32_t>(m);
    ByteReader reader(data.data(), data.size());
    {
        nb::gil_scoped_release release;
        const auto table = std::unique_ptr<ContextDecodeTable>(new ContextDecodeTable);
        fill_decode_table(tables.data(), static_cast<unsigned>(tables.shape(0)), *table);
        for (std::size_t begin = 0; begin < m; begin += block_length)
            decode_in_context(reader, contexts.data() + begin, std::min(block_length, m - begin), *table,
                              v.get() + begin);
    }
    return nb::make_tuple(owned_array(std::move(v), m), data.size() - reader.left());
}

nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<2>> count_contextual(WordsIn v, BytesIn contexts) {
    check_contexts(contexts, v.size(), most_contexts);
    auto counts = std::make_unique<std::uint64_t[]>(most_contexts * context_tokens);
    {
        nb::gil_scoped_release release;
        count_in_contexts(v.data(), contexts.data(), v.size(), most_contexts, counts.get());
    }
    return owned_tables(std::move(counts), most_contexts);
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
        constexpr std::size_t piece = 4096;  // random words are made in pieces that stay in the cache
        std::uint32_t words[piece];
        for (std::size_t begin = 0; begin < n; begin += piece) {
            const std::size_t size = std::min(piece, n - begin);
            philox_words(seed, stream, begin, size, words);
            contexts_of_words(words, size, bits, contexts.get() + begin);
        }
    }
    return owned_array(std::move(contexts), n);
}

}  // namespace

void bind_contextual(nb::module_& m) {
    m.def("encode_contextual", &encode_contextual, nb::arg("v"), nb::arg("contexts"), nb::arg("tables"));
    m.def("decode_contextual", &decode_contextual, nb::arg("data"), nb::arg("contexts"), nb::arg("tables"));
    m.def("count_contextual", &count_contextual, nb::arg("v"), nb::arg("contexts"));
    m.def("cost_contextual", &cost_contextual, nb::arg("counts"), nb::arg("tables"));
    m.def("normalise_tables", &normalise_tables, nb::arg("counts"));
    m.def("fit_tables", &fit_tables_, nb::arg("counts"));
    m.def("decode_tables", &decode_tables, nb::arg("data"), nb::arg("bits"));
    m.def("dither_contexts", &dither_contexts, nb::arg("seed"), nb::arg("stream"), nb::arg("n"), nb::arg("bits"));
}
