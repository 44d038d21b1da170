// Bindings of checksum, random numbers, subsets and selection.
#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "bindings.hpp"
#include "checksum.hpp"
#include "philox.hpp"
#include "select_parallel.hpp"
#include "spare_array.hpp"
#include "subset_gather.hpp"
#include "values.hpp"

namespace {

constexpr std::uint64_t index_limit = std::numeric_limits<std::uint32_t>::max();

[[noreturn]] void raise_parameter_error(const char* text) {
    PyErr_SetString(nb::module_::import_("gradwire.errors").attr("ParameterError").ptr(), text);
    throw nb::python_error();
}

bool overlap_in_part(const float* a, const float* b, std::size_t n) {
    return a != b && std::less<>()(a, b + n) && std::less<>()(b, a + n);
}

// total may lie where x or the residual does, but not across them.
void check_sum(const FloatsIn& x, const FloatsIn& residual, const FloatsOut& total) {
    const std::size_t n = x.size();
    if (residual.size() != n || total.size() != n) throw nb::value_error("x, residual and total differ in length");
    if (overlap_in_part(total.data(), x.data(), n) || overlap_in_part(total.data(), residual.data(), n))
        throw nb::value_error("total overlaps x or the residual in part");
}

std::uint32_t crc32c(nb::handle data) {
    const Bytes bytes(data);
    nb::gil_scoped_release release;
    return gradwire::checksum(bytes.data(), bytes.size());
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

void check_subset(std::uint64_t n, std::uint64_t k) {
    if (n > index_limit) raise_parameter_error("n must be below 2^32");
    if (k > n) raise_parameter_error("k must be at most n: a subset cannot be larger than the set");
}

std::int64_t position_or_none(std::size_t i, std::size_t n) { return i == n ? -1 : static_cast<std::int64_t>(i); }

// The index of the first of `count` chosen entries that is not finite, −1 if all are.
std::int64_t first_nonfinite(const SpareArray<std::uint32_t>& indices, const SpareArray<float>& values, std::size_t count) {
    const std::size_t i = gradwire::value_kernels().find_nonfinite(values.data(), count);
    return i == count ? -1 : static_cast<std::int64_t>(indices.data()[i]);
}

void put_back(float* total, const SpareArray<std::uint32_t>& indices, const SpareArray<float>& values, std::size_t count) {
    for (std::size_t j = 0; j < count; ++j) total[indices.data()[j]] = values.data()[j];
}

// Memory for the bitmap of a subset of n, and the subset drawn in it.
struct Draw {
    gradwire::Spare room;
    gradwire::DrawnSubset subset;

    Draw(std::uint64_t seed, std::uint64_t stream, std::uint32_t n, std::uint32_t k)
        : room(gradwire::subset_draw_words(n, k) * sizeof(std::uint64_t)),
          subset(gradwire::draw_subset(seed, stream, n, k, reinterpret_cast<std::uint64_t*>(room.data()))) {}
};

auto subset(std::uint64_t seed, std::uint64_t stream, std::uint64_t n, std::uint64_t k) {
    check_subset(n, k);
    const SpareArray<std::uint32_t> out(k + gradwire::subset_slack);
    {
        nb::gil_scoped_release release;
        const Draw draw(seed, stream, static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(k));
        gradwire::subset_positions(draw.subset, static_cast<std::uint32_t>(n), out.data());
    }
    return out.array(k);
}

nb::tuple subset_values(const FloatsIn& x, std::uint64_t seed, std::uint64_t stream, std::uint64_t k) {
    const std::size_t n = x.size();
    check_subset(n, k);
    const SpareArray<float> values(k);
    std::size_t bad = n;
    {
        nb::gil_scoped_release release;
        const Draw draw(seed, stream, static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(k));
        bad = gradwire::gather_subset_in_parallel(x.data(), n, draw.subset, values.data());
    }
    return nb::make_tuple(values.array(k), position_or_none(bad, n));
}

nb::tuple take_subset(const FloatsIn& x, const FloatsIn& residual, const FloatsOut& total, std::uint64_t seed,
                        std::uint64_t stream, std::uint64_t k) {
    const std::size_t n = x.size();
    check_sum(x, residual, total);
    check_subset(n, k);
    const SpareArray<std::uint32_t> indices(k);
    const SpareArray<float> values(k);
    std::size_t bad = n;
    {
        nb::gil_scoped_release release;
        const Draw draw(seed, stream, static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(k));
        bad = gradwire::take_subset_in_parallel(x.data(), residual.data(), total.data(), n, draw.subset, indices.data(),
                                                values.data());
    }
    return nb::make_tuple(indices.array(k), values.array(k), position_or_none(bad, n));
}

// Those that the subset does not name are put back into total, unless that is null.
nb::tuple thin(const WordsIn& indices, const FloatsIn& values, std::uint64_t seed, std::uint64_t stream, std::uint64_t k,
               float* total) {
    const std::size_t n = indices.size();
    if (values.size() != n) throw nb::value_error("indices and values differ in length");
    check_subset(n, k);
    const SpareArray<std::uint32_t> out_indices(k);
    const SpareArray<float> out_values(k);
    {
        nb::gil_scoped_release release;
        const Draw draw(seed, stream, static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(k));
        gradwire::thin_entries(indices.data(), values.data(), n, draw.subset, out_indices.data(), out_values.data());
        if (total != nullptr)
            gradwire::put_back_others(indices.data(), values.data(), n, draw.subset, total);
    }
    return nb::make_tuple(out_indices.array(k), out_values.array(k));
}

nb::tuple thin_entries(const WordsIn& indices, const FloatsIn& values, std::uint64_t seed, std::uint64_t stream,
                       std::uint64_t k) {
    return thin(indices, values, seed, stream, k, nullptr);
}

nb::tuple thin_taken(const FloatsOut& total, const WordsIn& indices, const FloatsIn& values, std::uint64_t seed,
                     std::uint64_t stream, std::uint64_t k) {
    check_indices(indices, total.size());
    return thin(indices, values, seed, stream, k, total.data());
}

void check_count(std::size_t n, std::uint64_t r) {
    if (n > index_limit) raise_parameter_error("x must have fewer than 2^32 entries");
    if (r > n) raise_parameter_error("r must be at most len(x)");
}

auto top(const FloatsIn& x, std::uint64_t r) {
    const std::size_t n = x.size();
    check_count(n, r);
    const SpareArray<std::uint32_t> indices(r);
    {
        nb::gil_scoped_release release;
        gradwire::select_top_in_parallel(x.data(), n, r, indices.data(), nullptr);
    }
    return indices.array(r);
}

nb::tuple top_entries(const FloatsIn& x, std::uint64_t r) {
    const std::size_t n = x.size();
    check_count(n, r);
    const SpareArray<std::uint32_t> indices(r);
    const SpareArray<float> values(r);
    {
        nb::gil_scoped_release release;
        gradwire::select_top_in_parallel(x.data(), n, r, indices.data(), values.data());
    }
    return nb::make_tuple(indices.array(r), values.array(r), first_nonfinite(indices, values, r));
}

nb::tuple take_top(const FloatsIn& x, const FloatsIn& residual, const FloatsOut& total, std::uint64_t r) {
    const std::size_t n = x.size();
    check_sum(x, residual, total);
    check_count(n, r);
    const SpareArray<std::uint32_t> indices(r);
    const SpareArray<float> values(r);
    {
        nb::gil_scoped_release release;
        gradwire::take_top_in_parallel(x.data(), residual.data(), total.data(), n, r, indices.data(), values.data());
    }
    const std::int64_t bad = first_nonfinite(indices, values, r);
    if (bad >= 0) put_back(total.data(), indices, values, r);
    return nb::make_tuple(indices.array(r), values.array(r), bad);
}

nb::tuple reaching_entries(const FloatsIn& x, float threshold) {
    const std::size_t n = x.size();
    check_count(n, 0);
    std::vector<gradwire::KeptEntries> parts;
    {
        nb::gil_scoped_release release;
        parts = gradwire::reaching_in_parallel(x.data(), n, threshold);
    }
    const std::size_t count = gradwire::size_of(parts);
    const SpareArray<std::uint32_t> indices(count);
    const SpareArray<float> values(count);
    {
        nb::gil_scoped_release release;
        gradwire::join(parts, indices.data(), values.data());
    }
    return nb::make_tuple(indices.array(count), values.array(count), first_nonfinite(indices, values, count));
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
    m.def("subset_values", &subset_values, nb::arg("x"), nb::arg("seed"), nb::arg("stream"), nb::arg("k"));
    m.def("take_subset", &take_subset, nb::arg("x"), nb::arg("residual"), nb::arg("total"), nb::arg("seed"),
          nb::arg("stream"), nb::arg("k"));
    m.def("thin_entries", &thin_entries, nb::arg("indices"), nb::arg("values"), nb::arg("seed"), nb::arg("stream"),
          nb::arg("k"));
    m.def("thin_taken", &thin_taken, nb::arg("total"), nb::arg("indices"), nb::arg("values"), nb::arg("seed"),
          nb::arg("stream"), nb::arg("k"));
    m.def("top", &top, nb::arg("x"), nb::arg("r"));
    m.def("top_entries", &top_entries, nb::arg("x"), nb::arg("r"));
    m.def("take_top", &take_top, nb::arg("x"), nb::arg("residual"), nb::arg("total"), nb::arg("r"));
    m.def("reaching_entries", &reaching_entries, nb::arg("x"), nb::arg("threshold"));
}
