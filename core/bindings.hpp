#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cstdint>
#include <memory>

namespace nb = nanobind;

// Contiguous read-only arrays on the CPU, as the kernels take them.
using FloatsIn = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using FloatsOut = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using WordsIn = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using BytesIn = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

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

// Long arrays ask for huge pages, as numpy's do: the first touch of each small page costs more than a kernel's pass.
inline void advise_huge_pages(void* data, std::size_t bytes) {
#if defined(__linux__)
    constexpr std::uintptr_t page = 4096;
    if (bytes >= std::size_t{4} << 20) {
        const auto begin = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
        const auto end = reinterpret_cast<std::uintptr_t>(data) + bytes;
        madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // advice: a refusal changes nothing
    }
#else
    (void)data, (void)bytes;
#endif
}

// Not zeroed: what is not used must not cost a page.
template <class T>
std::unique_ptr<T[]> uninitialised(std::size_t size) {
    auto array = std::make_unique_for_overwrite<T[]>(size);
    advise_huge_pages(array.get(), size * sizeof(T));
    return array;
}

// A new numpy array that owns its memory.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> owned_array(std::unique_ptr<T[]> data, std::size_t size) {
    T* raw = data.release();
    nb::capsule owner(raw, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return {raw, {size}, owner};
}

inline void check_exponent(int exponent) {
    if (exponent < -126 || exponent > 126) throw nb::value_error("the exponent lies in -126 … 126");
}

// The kernels trust their indices: this is where they earn it. `add` must not touch anything before.
inline void check_indices(const WordsIn& indices, std::size_t n) {
    std::uint32_t top = 0;
    for (std::size_t i = 0; i < indices.size(); ++i) top = std::max(top, indices.data()[i]);
    if (indices.size() != 0 && top >= n) throw nb::index_error("an index is not below the vector's length");
}

void bind_select(nb::module_& m);
void bind_coding(nb::module_& m);
void bind_values(nb::module_& m);
void bind_quantise(nb::module_& m);
void bind_levels(nb::module_& m);
void bind_hadamard(nb::module_& m);
void bind_rivals(nb::module_& m);
void bind_frame(nb::module_& m);
void bind_contextual(nb::module_& m);
void bind_spherical(nb::module_& m);
