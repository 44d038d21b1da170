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

void append_integers(const std::uint32_t* v, std::size_t m, const BlockBuffers& buffers,
                     std::vector<std::uint8_t>& section) {
    for (std::size_t begin = 0; begin < m; begin += block_length) {
        TokenWriter numbers(buffers.tokens(), buffers.extra());
        numbers.put(v + begin, std::min(block_length, m - begin));
        const std::size_t size = encode_block(numbers.finish(), buffers.stack(), buffers.block());
        section.insert(section.end(), buffers.block(), buffers.block() + size);
    }
}

std::size_t write_indices(const std::uint32_t* indices, std::size_t k, std::uint32_t n, const BlockBuffers& buffers,
                          std::uint8_t* out) {
    return encode_indices(indices, k, n, {buffers.tokens(), buffers.extra(), buffers.stack(), buffers.block()}, out);
}

nb::bytes encode_integers(WordsIn v) {
    std::vector<std::uint8_t> section;
    {
        nb::gil_scoped_release release;
        append_integers(v.data(), v.size(), BlockBuffers(std::min(v.size(), block_length)), section);
    }
    return nb::bytes(section.data(), section.size());
}

// The sparse form of a levels section: where the c levels are that are not 0, and what they are.
std::vector<std::uint8_t> sparse_levels(const std::uint32_t* zigzag, std::uint32_t m, std::size_t c,
                                        const BlockBuffers& buffers) {
    std::vector<std::uint32_t> numbers(2 * c);
    std::uint32_t* const where = numbers.data();
    std::uint32_t* const less_one = where + c;
    for (std::uint32_t i = 0, j = 0; i < m; ++i) {
        if (zigzag[i] == 0) continue;
        where[j] = i;
        less_one[j++] = zigzag[i] - 1;
    }
    std::vector<std::uint8_t> form(8 + (c > 0 ? indices_bound(c, m) : 0));
    form[0] = 1;
    std::uint8_t* end = put_varint(form.data() + 1, static_cast<std::uint32_t>(c));
    if (c > 0) end += write_indices(where, c, m, buffers, end);
    form.resize(static_cast<std::size_t>(end - form.data()));
    append_integers(less_one, c, buffers, form);
    return form;
}

// Sparse if 64·c < m; or if m is small and the sparse form is shorter; else dense.
nb::bytes encode_level_numbers(WordsIn zigzag) {
    constexpr std::size_t tried = 4096;
    const std::size_t m = zigzag.size();
    if (m > 0xFFFFFFFFu) throw nb::value_error("fewer than 2^32 levels are due");
    std::vector<std::uint8_t> sparse, dense;
    {
        nb::gil_scoped_release release;
        const BlockBuffers buffers(std::min(m, block_length));
        const std::size_t c = m - static_cast<std::size_t>(std::count(zigzag.data(), zigzag.data() + m, 0u));
        if (64 * c < m || m <= tried) sparse = sparse_levels(zigzag.data(), static_cast<std::uint32_t>(m), c, buffers);
        if (64 * c >= m) {
            dense.push_back(0);
            append_integers(zigzag.data(), m, buffers, dense);
        }
    }
    const auto& form = dense.empty() || (!sparse.empty() && sparse.size() < dense.size()) ? sparse : dense;
    return nb::bytes(form.data(), form.size());
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
            size = write_indices(indices.data(), k, n, BlockBuffers(std::min(k, block_length)), section.data());
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
    m.def("encode_level_numbers", &encode_level_numbers, nb::arg("zigzag"));
    m.def("decode_integers", &decode_integers_, nb::arg("data"), nb::arg("m"));
    m.def("encode_indices", &encode_indices_, nb::arg("indices"), nb::arg("n"));
    m.def("decode_indices", &decode_indices_, nb::arg("data"), nb::arg("n"), nb::arg("k"));
}
