// Bindings of checksum, random numbers, subsets and selection.
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

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

// Working space for one call. A thread keeps what it used last, up to a limit, because fresh pages cost time.
class Scratch {
public:
    explicit Scratch(std::size_t bytes) : words_((bytes + 7) / 8) {
        if (kept_words >= words_) {
            words_ = std::exchange(kept_words, 0);
            array_ = std::move(kept);
        } else {
            array_ = uninitialised<std::uint64_t>(words_);
        }
    }
    ~Scratch() {
        if (words_ <= most_kept && words_ > kept_words) {
            kept = std::move(array_);
            kept_words = words_;
        }
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    void* get() const { return array_.get(); }

private:
    static constexpr std::size_t most_kept = (std::size_t{8} << 20) / sizeof(std::uint64_t);
    static thread_local std::unique_ptr<std::uint64_t[]> kept;
    static thread_local std::size_t kept_words;

    std::size_t words_;
    std::unique_ptr<std::uint64_t[]> array_;
};
thread_local std::unique_ptr<std::uint64_t[]> Scratch::kept;
thread_local std::size_t Scratch::kept_words = 0;

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
    const Scratch bitmap(gradwire::subset_bitmap_words(static_cast<std::uint32_t>(n)) * sizeof(std::uint64_t));
    {
        nb::gil_scoped_release release;
        gradwire::subset(seed, stream, static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(k),
                         static_cast<std::uint64_t*>(bitmap.get()), out.get());
    }
    return owned_array(std::move(out), k);
}

auto top(const FloatsIn& x, std::uint64_t r) {
    const std::size_t n = x.size();
    if (n > index_limit) raise_parameter_error("x must have fewer than 2^32 entries");
    if (r > n) raise_parameter_error("r must be at most len(x)");
    auto out = uninitialised<std::uint32_t>(r);
    const std::size_t entries = gradwire::select_top_scratch(n, r);
    const Scratch scratch(2 * entries * sizeof(std::uint32_t));
    auto* const indices = static_cast<std::uint32_t*>(scratch.get());
    {
        nb::gil_scoped_release release;
        gradwire::select_top(reinterpret_cast<const std::uint32_t*>(x.data()), n, r, out.get(), indices,
                             indices + entries);
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
