#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "checksum.hpp"

namespace {

using gradwire::Piece;

// Floats that are sent in 16 bits: the vector, and float16's exponent, or none for bfloat16.
Piece rounded(nb::handle part) {
    const auto [vector, exponent] = nb::cast<std::pair<nb::handle, std::optional<int>>>(part);
    FloatsIn x;
    if (!nb::try_cast(vector, x, false)) throw nb::type_error("a vector of float32 is due");  // a copy would not last
    check_exponent(exponent.value_or(0));
    return {x.data(), 2 * x.size(), exponent ? Piece::Kind::float16 : Piece::Kind::bfloat16, exponent.value_or(0)};
}

// The pieces joined, and behind them their CRC-32C.
nb::bytes seal(nb::list parts) {
    std::deque<Bytes> views;
    std::vector<Piece> pieces;
    std::size_t size = 4;
    for (nb::handle part : parts) {
        if (nb::isinstance<nb::tuple>(part)) {
            pieces.push_back(rounded(part));
        } else {
            const Bytes& view = views.emplace_back(part);
            pieces.push_back({view.data(), view.size()});
        }
        size += pieces.back().size;
    }
    PyObject* sealed = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size));
    if (sealed == nullptr) throw nb::python_error();
    auto* out = reinterpret_cast<std::uint8_t*>(PyBytes_AS_STRING(sealed));
    {
        nb::gil_scoped_release release;
        advise_huge_pages(out, size);
        const std::uint32_t crc = gradwire::joined_checksum(pieces.data(), pieces.size(), out);
        out += size - 4;
        for (int byte = 0; byte < 4; ++byte) *out++ = static_cast<std::uint8_t>(crc >> (8 * byte));
    }
    return nb::steal<nb::bytes>(sealed);
}

}  // namespace

void bind_frame(nb::module_& m) { m.def("seal", &seal); }
