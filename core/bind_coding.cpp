#include "bindings.hpp"

#include <algorithm>
#include <vector>

#include "indices.hpp"
#include "integers.hpp"

namespace {

using namespace gradwire;

// Not initialised: kernels write before they read, and what is not used costs no page.
template <class T>
std::unique_ptr<T[]> buffer(std::size_t size) {
    return std::unique_ptr<T[]>(new T[size]);
}

// The buffers of one block of m numbers.
struct BlockBuffers {
    explicit BlockBuffers(std::size_t m)
        : tokens(buffer<std::uint8_t>(m)),
          extra(buffer<std::uint8_t>(extra_bound(m))),
          stack(buffer<std::uint16_t>(m + stack_slack)),
          block(buffer<std::uint8_t>(block_bound(m, 29 * m))) {}

    std::unique_ptr<std::uint8_t[]> tokens, extra;
    std::unique_ptr<std::uint16_t[]> stack;
    std::unique_ptr<std::uint8_t[]> block;
};

nb::bytes encode_integers(WordsIn v) {
    std::vector<std::uint8_t> section;
    {
        nb::gil_scoped_release release;
        const BlockBuffers buffers(std::min(v.size(), block_length));
        for (std::size_t begin = 0; begin < v.size(); begin += block_length) {
            TokenWriter numbers(buffers.tokens.get(), buffers.extra.get());
            numbers.put(v.data() + begin, std::min(block_length, v.size() - begin));
            const std::size_t size = encode_block(numbers.finish(), buffers.stack.get(), buffers.block.get());
            section.insert(section.end(), buffers.block.get(), buffers.block.get() + size);
        }
    }
    return nb::bytes(section.data(), section.size());
}

nb::tuple decode_integers_(BytesIn data, std::size_t m) {
    auto v = buffer<std::uint32_t>(m);
    ByteReader reader(data.data(), data.size());
    {
        nb::gil_scoped_release release;
        const auto tokens = buffer<std::uint8_t>(std::min(m, block_length));
        for (std::size_t begin = 0; begin < m; begin += block_length)
            decode_numbers(read_block(reader, std::min(block_length, m - begin)), tokens.get(), v.get() + begin);
    }
    return nb::make_tuple(owned_array(std::move(v), m), data.size() - reader.left());
}

nb::bytes encode_indices_(WordsIn indices, std::uint32_t n) {
    const std::size_t k = indices.size();
    std::unique_ptr<std::uint8_t[]> section;
    std::size_t size = 0;
    {
        nb::gil_scoped_release release;
        if (k > 0 && indices_are_valid(indices.data(), k, n)) {
            const BlockBuffers buffers(std::min(k, block_length));
            section = buffer<std::uint8_t>(indices_bound(k, n));
            size = encode_indices(indices.data(), k, n,
                                  {buffers.tokens.get(), buffers.extra.get(), buffers.stack.get(), buffers.block.get()},
                                  section.get());
        }
    }
    if (size == 0) {
        const std::string text = "the indices must be at least one, strictly ascending and below n = " + std::to_string(n);
        PyErr_SetString(nb::module_::import_("gradwire.errors").attr("InputError").ptr(), text.c_str());
        throw nb::python_error();
    }
    return nb::bytes(section.get(), size);
}

nb::tuple decode_indices_(BytesIn data, std::uint32_t n, std::size_t k) {
    if (k == 0 || k > n)  // before memory is asked for
        throw MessageError("the message names " + std::to_string(k) + " indices where 1 to n = " + std::to_string(n) +
                           " are possible");
    auto indices = buffer<std::uint32_t>(k);
    ByteReader reader(data.data(), data.size());
    {
        nb::gil_scoped_release release;
        const auto tokens = buffer<std::uint8_t>(std::min(k, block_length));
        decode_indices(reader, n, k, tokens.get(), indices.get());
    }
    return nb::make_tuple(owned_array(std::move(indices), k), data.size() - reader.left());
}

}  // namespace

void bind_coding(nb::module_& m) {
    m.def("encode_integers", &encode_integers, nb::arg("v"));
    m.def("decode_integers", &decode_integers_, nb::arg("data"), nb::arg("m"));
    m.def("encode_indices", &encode_indices_, nb::arg("indices"), nb::arg("n"));
    m.def("decode_indices", &decode_indices_, nb::arg("data"), nb::arg("n"), nb::arg("k"));
}
