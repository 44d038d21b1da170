// Memory that is used again: the first touch of a fresh page costs more than a kernel's pass over it, so what scratch and
// pieces of messages leave behind is kept for the next call, of any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace gradwire {

class Spare {
public:
    explicit Spare(std::size_t size);  // not zeroed
    ~Spare();
    Spare(Spare&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr; }
    Spare& operator=(Spare&&) = delete;

    std::uint8_t* data() const noexcept { return data_; }

    void swap(Spare& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }

private:
    std::uint8_t* data_;
    std::size_t size_;  // what lies at data_; at least what was asked for
};

}  // namespace gradwire
