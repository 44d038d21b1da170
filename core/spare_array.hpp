// Arrays of numbers for Python: a long one, a step on the way to a message, lies in spare memory, because another of about
// its size follows soon and the first touch of fresh pages costs more than most kernels.
#pragma once

#include "bindings.hpp"
#include "spare.hpp"

template <class T>
class SpareArray {
public:
    explicit SpareArray(std::size_t capacity) {
        if (capacity * sizeof(T) < long_bytes) {
            auto memory = std::make_unique_for_overwrite<T[]>(capacity);
            data_ = memory.get();
            owner_ = nb::capsule(memory.release(), [](void* p) noexcept { delete[] static_cast<T*>(p); });
        } else {
            auto memory = std::make_unique<gradwire::Spare>(capacity * sizeof(T));
            data_ = reinterpret_cast<T*>(memory->data());
            owner_ = nb::capsule(memory.release(), [](void* p) noexcept { delete static_cast<gradwire::Spare*>(p); });
        }
    }

    T* data() const { return data_; }

    // The first `size` entries as a numpy array, which the memory lives as long as.
    nb::ndarray<nb::numpy, T, nb::ndim<1>> array(std::size_t size) const { return {data_, {size}, owner_}; }

private:
    static constexpr std::size_t long_bytes = std::size_t{1} << 16;

    T* data_;
    nb::capsule owner_;
};
