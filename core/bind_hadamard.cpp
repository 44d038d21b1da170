#include <algorithm>

#include "bindings.hpp"
#include "hadamard.hpp"

namespace {

using gradwire::hadamard_kernels;

std::size_t rows_of(std::size_t size, unsigned log2n, unsigned longest) {
    if (log2n > longest) throw nb::value_error("the transform's length is too large");
    if (size % (std::size_t{1} << log2n) != 0) throw nb::value_error("the array is no whole number of rows");
    return size >> log2n;
}

}  // namespace

void bind_hadamard(nb::module_& m) {
    m.def("hadamard", [](FloatsIn x, unsigned log2n) {
        const std::size_t rows = rows_of(x.size(), log2n, gradwire::hadamard_longest);
        auto out = std::make_unique_for_overwrite<float[]>(x.size());
        {
            nb::gil_scoped_release release;
            std::copy_n(x.data(), x.size(), out.get());
            for (std::size_t r = 0; r < rows; ++r) hadamard_kernels().transform(out.get() + (r << log2n), log2n);
        }
        return owned_array(std::move(out), x.size());
    });
    m.def("represent", [](FloatsIn y, WordsIn positions, FloatsIn signs, unsigned log2n, FloatsIn goals, int rounds) {
        if (log2n > gradwire::kashin_longest) throw nb::value_error("the transform's length is too large");
        const std::size_t n = std::size_t{1} << log2n, count = positions.size(), rows = goals.size();
        if (signs.size() != count || y.size() != rows * count) throw nb::value_error("the arrays' lengths do not fit");
        for (std::size_t i = 0; i < count; ++i)
            if (positions.data()[i] >= n || (i > 0 && positions.data()[i] <= positions.data()[i - 1]))
                throw nb::value_error("positions ascend below the transform's length");
        auto out = std::make_unique_for_overwrite<float[]>(rows << log2n);
        auto largest = std::make_unique_for_overwrite<float[]>(rows);
        {
            nb::gil_scoped_release release;
            auto scratch = std::make_unique_for_overwrite<float[]>(3 * n);
            const gradwire::Frame frame{positions.data(), signs.data(), count, log2n};
            for (std::size_t r = 0; r < rows; ++r)
                largest[r] = hadamard_kernels().represent(y.data() + r * count, frame, goals.data()[r], rounds,
                                                          out.get() + (r << log2n), scratch.get());
        }
        return nb::make_tuple(owned_array(std::move(out), rows << log2n), owned_array(std::move(largest), rows));
    });
}
