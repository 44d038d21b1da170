#include <algorithm>

#include "bindings.hpp"
#include "message_error.hpp"
#include "spare.hpp"
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

// An array of 16-bit numbers in spare memory: a long one is a step on the way to a message, and follows another such.
struct SpareHalves {
    gradwire::Spare* memory;
    nb::capsule owner;
    std::size_t size;

    explicit SpareHalves(std::size_t n)
        : memory(new gradwire::Spare(2 * n)),
          owner(memory, [](void* p) noexcept { delete static_cast<gradwire::Spare*>(p); }),
          size(n) {}
    std::uint16_t* data() const { return reinterpret_cast<std::uint16_t*>(memory->data()); }
    nb::ndarray<nb::numpy, std::uint16_t, nb::ndim<1>> array() const { return {data(), {size}, owner}; }
};

constexpr std::size_t short_halves = std::size_t{1} << 18;

template <class Encode>
nb::ndarray<nb::numpy, std::uint16_t, nb::ndim<1>> encoded_halves(std::size_t n, Encode encode) {
    if (n < short_halves) {
        auto out = uninitialised<std::uint16_t>(n);
        {
            nb::gil_scoped_release release;
            encode(out.get());
        }
        return owned_array(std::move(out), n);
    }
    const SpareHalves out(n);
    {
        nb::gil_scoped_release release;
        encode(out.data());
    }
    return out.array();
}

void add_floats(BytesIn data, FloatsOut out, int format, int exponent, float weight) {
    using gradwire::FloatFormat;
    if (format < 0 || format > 2) throw nb::value_error("the format is 0, 1 or 2");
    check_exponent(exponent);
    const auto known = static_cast<FloatFormat>(format);
    if (data.size() != out.size() * gradwire::bytes_of(known)) throw nb::value_error("out and data differ in length");
    nb::gil_scoped_release release;
    const auto& kernels = gradwire::value_kernels();
    if (!kernels.all_finite(data.data(), out.size(), known))
        throw gradwire::MessageError("the message holds NaN or infinity");
    kernels.add_floats(out.data(), data.data(), out.size(), known, exponent, weight);
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
    m.def("add_floats", &add_floats);
    m.def("encode_bfloat16", [](FloatsIn x) {
        return encoded_halves(
            x.size(), [&](std::uint16_t* out) { value_kernels().encode_bfloat16(x.data(), x.size(), out); });
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
        return encoded_halves(
            x.size(), [&](std::uint16_t* out) { value_kernels().encode_float16(x.data(), x.size(), exponent, out); });
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
