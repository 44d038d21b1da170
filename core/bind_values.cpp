#include "bindings.hpp"
#include "message_error.hpp"
#include "spare_array.hpp"
#include "sums.hpp"
#include "threads.hpp"
#include "values.hpp"

namespace {

using gradwire::in_parallel_pieces;
using gradwire::part_length;
using HalvesIn = nb::ndarray<const std::uint16_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// encode(begin, size, out) makes a part of them.
template <class Encode>
auto encoded_halves(std::size_t n, const Encode& encode) {
    const SpareArray<std::uint16_t> out(n);
    {
        nb::gil_scoped_release release;
        in_parallel_pieces(n, part_length, [&](std::size_t begin, std::size_t size) {
            encode(begin, size, out.data() + begin);
        });
    }
    return out.array(n);
}

template <class In, class T>
auto gathered(In x, WordsIn indices) {
    const SpareArray<T> out(indices.size());
    {
        nb::gil_scoped_release release;
        check_indices(indices, x.size());
        gradwire::gather(x.data(), indices.data(), indices.size(), out.data());
    }
    return out.array(indices.size());
}

void add_floats(BytesIn data, FloatsOut out, int format, int exponent, float weight) {
    using gradwire::FloatFormat;
    if (format < 0 || format > 2) throw nb::value_error("the format is 0, 1 or 2");
    check_exponent(exponent);
    const auto known = static_cast<FloatFormat>(format);
    if (data.size() != out.size() * gradwire::bytes_of(known)) throw nb::value_error("out and data differ in length");
    nb::gil_scoped_release release;
    const auto& kernels = gradwire::value_kernels();
    const std::size_t bytes = gradwire::bytes_of(known);
    in_parallel_pieces(out.size(), part_length, [&](std::size_t begin, std::size_t size) {
        if (!kernels.all_finite(data.data() + bytes * begin, size, known))
            throw gradwire::MessageError("the message holds NaN or infinity");
    });
    in_parallel_pieces(out.size(), part_length, [&](std::size_t begin, std::size_t size) {
        kernels.add_floats(out.data() + begin, data.data() + bytes * begin, size, known, exponent, weight);
    });
}

}  // namespace

void bind_values(nb::module_& m) {
    using gradwire::value_kernels;

    m.def("find_nonfinite", [](FloatsIn x) -> std::int64_t {
        nb::gil_scoped_release release;
        const std::size_t i = value_kernels().find_nonfinite(x.data(), x.size());
        return i == x.size() ? -1 : static_cast<std::int64_t>(i);
    });
    m.def("max_abs", [](FloatsIn x) {
        nb::gil_scoped_release release;
        return gradwire::largest_magnitude(x.data(), x.size());
    });
    m.def("gather", &gathered<FloatsIn, float>);
    m.def("gather", &gathered<WordsIn, std::uint32_t>);
    m.def("add_dense", [](FloatsOut out, FloatsIn values, float weight) {
        if (out.size() != values.size()) throw nb::value_error("out and values differ in length");
        nb::gil_scoped_release release;
        in_parallel_pieces(out.size(), part_length, [&](std::size_t begin, std::size_t size) {
            value_kernels().add_dense(out.data() + begin, values.data() + begin, size, weight);
        });
    });
    m.def("add_sparse", [](FloatsOut out, WordsIn indices, FloatsIn values, float weight) {
        if (indices.size() != values.size()) throw nb::value_error("indices and values differ in length");
        nb::gil_scoped_release release;
        check_indices(indices, out.size());
        gradwire::add_sparse(out.data(), indices.data(), values.data(), indices.size(), weight);
    });
    m.def("put_sparse", [](FloatsOut out, WordsIn indices, FloatsIn values) {
        if (indices.size() != values.size()) throw nb::value_error("indices and values differ in length");
        nb::gil_scoped_release release;
        check_indices(indices, out.size());
        gradwire::put_sparse(out.data(), indices.data(), values.data(), indices.size());
    });
    m.def("add_floats", &add_floats);
    m.def("encode_bfloat16", [](FloatsIn x) {
        return encoded_halves(x.size(), [&](std::size_t begin, std::size_t size, std::uint16_t* out) {
            value_kernels().encode_bfloat16(x.data() + begin, size, out);
        });
    });
    m.def("decode_bfloat16", [](HalvesIn h) {
        auto out = uninitialised<float>(h.size());
        {
            nb::gil_scoped_release release;
            value_kernels().decode_bfloat16(h.data(), h.size(), out.get());
        }
        return owned_array(std::move(out), h.size());
    });
    m.def("encode_float16", [](FloatsIn x, int exponent) {
        check_exponent(exponent);
        return encoded_halves(x.size(), [&](std::size_t begin, std::size_t size, std::uint16_t* out) {
            value_kernels().encode_float16(x.data() + begin, size, exponent, out);
        });
    });
    m.def("decode_float16", [](HalvesIn h, int exponent) {
        check_exponent(exponent);
        auto out = uninitialised<float>(h.size());
        {
            nb::gil_scoped_release release;
            value_kernels().decode_float16(h.data(), h.size(), exponent, out.get());
        }
        return owned_array(std::move(out), h.size());
    });
}
