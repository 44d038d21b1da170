#include <deque>
#include <vector>

#include "bindings.hpp"
#include "checksum.hpp"

namespace {

// The pieces joined, and behind them their CRC-32C.
nb::bytes seal(nb::list parts) {
    std::deque<Bytes> views;
    std::size_t size = 4;
    for (nb::handle part : parts) size += views.emplace_back(part).size();
    PyObject* sealed = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size));
    if (sealed == nullptr) throw nb::python_error();
    auto* out = reinterpret_cast<std::uint8_t*>(PyBytes_AS_STRING(sealed));
    {
        nb::gil_scoped_release release;
        advise_huge_pages(out, size);
        std::vector<gradwire::Piece> pieces;
        for (const Bytes& view : views) pieces.push_back({view.data(), view.size()});
        const std::uint32_t crc = gradwire::joined_checksum(pieces.data(), pieces.size(), out);
        out += size - 4;
        for (int byte = 0; byte < 4; ++byte) *out++ = static_cast<std::uint8_t>(crc >> (8 * byte));
    }
    return nb::steal<nb::bytes>(sealed);
}

}  // namespace

void bind_frame(nb::module_& m) { m.def("seal", &seal); }
