// Threads for kernels whose work falls into independent parts: one setting for the process, one small pool behind it.
//
// What a part writes follows from its number alone, so results are the same for every number of threads.
#pragma once

#include <cstddef>

namespace gradwire {

inline constexpr unsigned most_threads = 256;

// How many threads a call may use, its own included; 1 until somebody sets more.
unsigned threads() noexcept;
void set_threads(unsigned count) noexcept;  // clipped to 1 … most_threads

// Work on fewer entries than this is not worth waking a thread for.
inline constexpr std::size_t worth_threads = std::size_t{1} << 17;

// How a long array is cut where nothing else asks for a certain size: a part's entries stay in the second cache.
inline constexpr std::size_t part_length = std::size_t{1} << 16;

constexpr std::size_t parts_of(std::size_t n, std::size_t length) noexcept { return n / length + (n % length != 0); }

namespace detail {
using Part = void (*)(const void* work, std::size_t part);
void run_parts(std::size_t parts, Part call, const void* work);
}  // namespace detail

// work(part) for each part below `parts`, in about ascending order, on this thread and on those of the pool that come to
// help; returns when all are done. `entries` is the size of the whole work. The pool serves one call at a time: a call
// that finds it busy, one from inside another's work included, does all parts itself, so no more than threads() run.
// If parts raise, the exception of the lowest such part is raised, and parts that were not begun are left out.
template <class Work>
void in_parallel(std::size_t parts, std::size_t entries, const Work& work) {
    if (parts <= 1 || entries < worth_threads || threads() == 1) {
        for (std::size_t part = 0; part < parts; ++part) work(part);
        return;
    }
    detail::run_parts(
        parts, [](const void* w, std::size_t part) { (*static_cast<const Work*>(w))(part); }, &work);
}

// work(begin, size) for the pieces of `length` items, the last one maybe shorter, that make up n items of `entries` in all.
template <class Work>
void in_parallel_pieces(std::size_t n, std::size_t length, std::size_t entries, const Work& work) {
    in_parallel(parts_of(n, length), entries, [&](std::size_t part) {
        const std::size_t begin = part * length;
        work(begin, n - begin < length ? n - begin : length);
    });
}

// The same where the items are entries.
template <class Work>
void in_parallel_pieces(std::size_t n, std::size_t length, const Work& work) {
    in_parallel_pieces(n, length, n, work);
}

}  // namespace gradwire
