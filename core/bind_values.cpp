#include <algorithm>

#include "bindings.hpp"
#include "values.hpp"

namespace {

using HalvesIn = nb::ndarray<const std::uint16_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The kernels trust their indices: this is where they earn it. `add` must not touch anything before.
void check_indices(const WordsIn& indices, std::size_t n) {
    std::uint32_t top = 0;
    for (std::size_t i = 0; i < indices.size(); ++i) top = std::max(top, indices.data()[i]);
    if (indices.size() != 0 && top >= n) throw nb::index_error("an index is not below the vector's length");
}

void check_exponent(int exponent) {
    if (exponent < -126 || exponent > 126) throw nb::value_error("the exponent lies in -126 … 126");
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
        return value_kernels().max_abs(x.data(), x.size());
    });
    m.def("gather", [](FloatsIn x, WordsIn indices) {
        auto out = uninitialised<float>(indices.size());
        {
            nb::gil_scoped_release release;
            check_indices(indices, x.size());
            gradwire::gather(x.data(), indices.data(), indices.size(), out.get());
        }
        return owned_array(std::move(out), indices.size());
    });
    m.def("add_dense", [](FloatsOut out, FloatsIn values, float weight) {
        if (out.size() != values.size()) throw nb::value_error("out and values differ in length");
        nb::gil_scoped_release release;
        value_kernels().add_dense(out.data(), values.data(), out.size(), weight);
    });
    m.def("add_sparse", [](FloatsOut out, WordsIn indices, FloatsIn values, float weight) {
        if (indices.size() != values.size()) throw nb::value_error("indices and values differ in length");
        nb::gil_scoped_release release;
        check_indices(indices, out.size());
        gradwire::add_sparse(out.data(), indices.data(), values.data(), indices.size(), weight);
    });
    m.def("encode_bfloat16", [](FloatsIn x) {
        auto out = uninitialised<std::uint16_t>(x.size());
        {
            nb::gil_scoped_release release;
            value_kernels().encode_bfloat16(x.data(), x.size(), out.get());
        }
        return owned_array(std::move(out), x.size());
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
        auto out = uninitialised<std::uint16_t>(x.size());
        {
            nb::gil_scoped_release release;
            value_kernels().encode_float16(x.data(), x.size(), exponent, out.get());
        }
        return owned_array(std::move(out), x.size());
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
