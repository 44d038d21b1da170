// Bindings of checksum, random numbers, subsets and selection.
#include <algorithm>
#include <limits>
#include <memory>

#include "bindings.hpp"
#include "crc32c.hpp"
#include "philox.hpp"
#include "select.hpp"
#include "subset.hpp"

namespace {

constexpr std::uint64_t index_limit = std::numeric_limits<std::uint32_t>::max();

[[noreturn]] void raise_parameter_error(const char* text) {
    PyErr_SetString(nb::module_::import_("gradwire.errors").attr("ParameterError").ptr(), text);
    throw nb::python_error();
}

// Any object that shows its bytes in one piece: bytes, bytearray, memoryview, numpy array.
class Bytes {
public:
    explicit Bytes(nb::handle object) {
        if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
    }
    ~Bytes() { PyBuffer_Release(&view_); }
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;

    const std::uint8_t* data() const { return static_cast<const std::uint8_t*>(view_.buf); }
    std::size_t size() const { return static_cast<std::size_t>(view_.len); }

private:
    Py_buffer view_;
};

// Uninitialised: what is not used must not cost a page.
template <class T>
std::unique_ptr<T[]> uninitialised(std::size_t size) {
    return std::make_unique_for_overwrite<T[]>(size);
}

std::uint32_t crc32c(nb::handle data) {
    const Bytes bytes(data);
    nb::gil_scoped_release release;
    return gradwire::crc32c(bytes.data(), bytes.size());
}

template <class T, auto kernel>
auto random_numbers(std::uint64_t seed, std::uint64_t stream, std::uint64_t start, std::uint64_t count) {
    if (count > 0 && start > std::numeric_limits<std::uint64_t>::max() - (count - 1))
        raise_parameter_error("start + count passes 2^64, the number of words that a generator has");
    auto out = uninitialised<T>(count);
    {
        nb::gil_scoped_release release;
        kernel(seed, stream, start, count, out.get());
    }
    return owned_array(std::move(out), count);
}

auto subset(std::uint64_t seed, std::uint64_t stream, std::uint64_t n, std::uint64_t k) {
    if (n > index_limit) raise_parameter_error("n must be below 2^32");
    if (k > n) raise_parameter_error("k must be at most n: a subset cannot be larger than the set");
    auto out = uninitialised<std::uint32_t>(k + gradwire::subset_slack);
    auto bitmap = uninitialised<std::uint64_t>(gradwire::subset_bitmap_words(static_cast<std::uint32_t>(n)));
    {
        nb::gil_scoped_release release;
        gradwire::subset(seed, stream, static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(k), bitmap.get(),
                         out.get());
    }
    return owned_array(std::move(out), k);
}

auto top(const FloatsIn& x, std::uint64_t r) {
    const std::size_t n = x.size();
    if (n > index_limit) raise_parameter_error("x must have fewer than 2^32 entries");
    if (r > n) raise_parameter_error("r must be at most len(x)");
    auto out = uninitialised<std::uint32_t>(r);
    const std::size_t scratch = gradwire::select_top_scratch(n, r);
    auto indices = uninitialised<std::uint32_t>(scratch), keys = uninitialised<std::uint32_t>(scratch);
    {
        nb::gil_scoped_release release;
        gradwire::select_top(reinterpret_cast<const std::uint32_t*>(x.data()), n, r, out.get(), indices.get(), keys.get());
    }
    return owned_array(std::move(out), r);
}

}  // namespace

void bind_select(nb::module_& m) {
    m.def("crc32c", &crc32c, nb::arg("data"));
    m.def("philox_words", &random_numbers<std::uint32_t, &gradwire::philox_words>, nb::arg("seed"), nb::arg("stream"),
          nb::arg("start"), nb::arg("count"));
    m.def("uniform", &random_numbers<float, &gradwire::philox_uniform>, nb::arg("seed"), nb::arg("stream"),
          nb::arg("start"), nb::arg("count"));
    m.def("child_seed", &gradwire::philox_child_seed, nb::arg("seed"), nb::arg("stream"), nb::arg("j"));
    m.def("subset", &subset, nb::arg("seed"), nb::arg("stream"), nb::arg("n"), nb::arg("k"));
    m.def("top", &top, nb::arg("x"), nb::arg("r"));
}
