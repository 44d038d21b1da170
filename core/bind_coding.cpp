#include "bindings.hpp"
#include "spare_array.hpp"

#include <algorithm>
#include <vector>

#include "indices.hpp"
#include "integers.hpp"

namespace {

using namespace gradwire;

// The buffers of one block of m numbers, in one piece.
class BlockBuffers {
public:
    explicit BlockBuffers(std::size_t m)
        : stack_bytes_(2 * (m + stack_slack)),
          extra_bytes_(extra_bound(m)),
          block_bytes_(block_bound(m, 29 * m)),
          memory_(stack_bytes_ + extra_bytes_ + block_bytes_ + m) {}

    std::uint16_t* stack() const { return reinterpret_cast<std::uint16_t*>(memory_.data()); }
    std::uint8_t* extra() const { return memory_.data() + stack_bytes_; }
    std::uint8_t* block() const { return extra() + extra_bytes_; }
    std::uint8_t* tokens() const { return block() + block_bytes_; }

private:
    std::size_t stack_bytes_, extra_bytes_, block_bytes_;
    Spare memory_;
};

nb::bytes encode_integers(WordsIn v) {
    std::vector<std::uint8_t> section;
    {
        nb::gil_scoped_release release;
        const BlockBuffers buffers(std::min(v.size(), block_length));
        for (std::size_t begin = 0; begin < v.size(); begin += block_length) {
            TokenWriter numbers(buffers.tokens(), buffers.extra());
            numbers.put(v.data() + begin, std::min(block_length, v.size() - begin));
            const std::size_t size = encode_block(numbers.finish(), buffers.stack(), buffers.block());
            section.insert(section.end(), buffers.block(), buffers.block() + size);
        }
    }
    return nb::bytes(section.data(), section.size());
}

nb::tuple decode_integers_(BytesIn data, std::size_t m) {
    auto v = uninitialised<std::uint32_t>(m);
    ByteReader reader(data.data(), data.size());
    {
        nb::gil_scoped_release release;
        const Spare tokens(std::min(m, block_length));
        for (std::size_t begin = 0; begin < m; begin += block_length)
            decode_numbers(read_block(reader, std::min(block_length, m - begin)), tokens.data(), v.get() + begin);
    }
    return nb::make_tuple(owned_array(std::move(v), m), data.size() - reader.left());
}

nb::bytes encode_indices_(WordsIn indices, std::uint32_t n) {
    const std::size_t k = indices.size();
    const bool bounded = k > 0 && k <= n;
    const Spare section(bounded ? indices_bound(k, n) : 0);
    std::size_t size = 0;
    if (bounded) {
        nb::gil_scoped_release release;
        if (indices_are_valid(indices.data(), k, n)) {
            const BlockBuffers buffers(std::min(k, block_length));
            size = encode_indices(indices.data(), k, n,
                                  {buffers.tokens(), buffers.extra(), buffers.stack(), buffers.block()}, section.data());
        }
    }
    if (size == 0) {
        const std::string text = "the indices must be at least one, strictly ascending and below n = " + std::to_string(n);
        PyErr_SetString(nb::module_::import_("gradwire.errors").attr("InputError").ptr(), text.c_str());
        throw nb::python_error();
    }
    return nb::bytes(section.data(), size);
}

nb::tuple decode_indices_(BytesIn data, std::uint32_t n, std::size_t k) {
    if (k == 0 || k > n)  // before memory is asked for
        throw MessageError("the message names " + std::to_string(k) + " indices where 1 to n = " + std::to_string(n) +
                           " are possible");
    const SpareArray<std::uint32_t> indices(k);
    ByteReader reader(data.data(), data.size());
    {
        nb::gil_scoped_release release;
        const Spare tokens(std::min(k, block_length));
        decode_indices(reader, n, k, tokens.data(), indices.data());
    }
    return nb::make_tuple(indices.array(k), data.size() - reader.left());
}

}  // namespace

void bind_coding(nb::module_& m) {
    m.def("encode_integers", &encode_integers, nb::arg("v"));
    m.def("decode_integers", &decode_integers_, nb::arg("data"), nb::arg("m"));
    m.def("encode_indices", &encode_indices_, nb::arg("indices"), nb::arg("n"));
    m.def("decode_indices", &decode_indices_, nb::arg("data"), nb::arg("n"), nb::arg("k"));
}
