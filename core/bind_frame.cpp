#include <algorithm>
#include <cstring>
#include <deque>

#include "bindings.hpp"
#include "crc32c.hpp"

namespace {

// One pass: what has just been copied is still in the cache when the checksum reads it.
constexpr std::size_t piece = 32768;

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
        std::uint32_t crc = 0;
        for (const Bytes& view : views)
            for (std::size_t begin = 0; begin < view.size(); begin += piece) {
                const std::size_t length = std::min(piece, view.size() - begin);
                std::memcpy(out, view.data() + begin, length);
                crc = gradwire::crc32c(out, length, crc);
                out += length;
            }
        for (int byte = 0; byte < 4; ++byte) *out++ = static_cast<std::uint8_t>(crc >> (8 * byte));
    }
    return nb::steal<nb::bytes>(sealed);
}

}  // namespace

void bind_frame(nb::module_& m) { m.def("seal", &seal); }
