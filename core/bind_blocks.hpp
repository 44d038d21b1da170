// What the bindings of levels sections share: the blocks of a vector, each made on a thread.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "levels.hpp"
#include "spare.hpp"
#include "threads.hpp"

namespace gradwire {

// The scratch of a block of m numbers.
class EncodingScratch {
public:
    explicit EncodingScratch(std::size_t m)
        : tokens_(m), wide_(m), extra_(extra_bound(m)), stack_(2 * (m + stack_slack)),
          block_(block_bound(m, 29 * std::uint64_t{m})) {}

    LevelScratch parts(const void* soon) const {
        return {tokens_.data(), wide_.data(), extra_.data(), reinterpret_cast<std::uint16_t*>(stack_.data()),
                block_.data(), soon};
    }

private:
    Spare tokens_, wide_, extra_, stack_, block_;
};

// A read-only view of bytes that lie in spare memory, which is given back with it.
inline nb::object view_of(Spare&& memory, std::size_t size) {
    auto* const held = new Spare(std::move(memory));
    const nb::capsule owner(held, [](void* p) noexcept { delete static_cast<Spare*>(p); });
    const nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>> array(held->data(), {size}, owner);
    PyObject* const view = PyMemoryView_FromObject(nb::cast(array).ptr());
    if (view == nullptr) throw nb::python_error();
    return nb::steal(view);
}

struct EncodedLevels {
    nb::list blocks;  // a piece each: they are copied once, when the frame is sealed
    LevelSums sums{};
};

// encode(first, size, scratch) makes a block of what is read from x. Last to first: who measured the vector for its step
// has just read it, and its end is still in the cache.
template <class Encode>
EncodedLevels encode_blocks(FloatsIn x, const Encode& encode) {
    struct Made {
        std::optional<Spare> bytes;
        LevelBlock block;
    };
    const std::size_t n = x.size(), count = parts_of(n, block_length);
    std::vector<Made> made(count);
    {
        nb::gil_scoped_release release;
        in_parallel(count, n, [&](std::size_t part) {
            const std::size_t b = count - 1 - part, first = b * block_length;
            const std::size_t m = std::min(block_length, n - first);
            const EncodingScratch memory(m);
            const std::size_t apart = threads();  // what this thread makes next is likely to be so many blocks before
            const LevelScratch scratch = memory.parts(b >= apart ? x.data() + first - apart * block_length : nullptr);
            made[b].block = encode(first, m, scratch);
            made[b].bytes.emplace(made[b].block.size);
            std::memcpy(made[b].bytes->data(), scratch.block, made[b].block.size);
        });
    }
    EncodedLevels result;
    for (Made& one : made) {
        result.blocks.append(view_of(std::move(*one.bytes), one.block.size));
        result.sums.products += one.block.sums.products;
        result.sums.squares += one.block.sums.squares;
        result.sums.nonzero += one.block.sums.nonzero;
    }
    return result;
}

}  // namespace gradwire
