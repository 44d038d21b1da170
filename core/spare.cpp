#include "spare.hpp"

#include <mutex>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace gradwire {
namespace {

constexpr std::size_t grain = std::size_t{1} << 16;       // sizes are multiples: what is of about one size is of one
constexpr std::size_t most_kept = std::size_t{128} << 20;  // bytes that lie idle, at most
constexpr std::align_val_t page{4096};

struct Idle {
    std::uint8_t* data;
    std::size_t size;
};

struct Shelf {
    std::mutex mutex;
    std::vector<Idle> idle;
    std::size_t kept = 0;
};

// Never destroyed: a thread may still give memory back while the program ends. Locked while the process forks, lest the
// child inherit a lock whose holder it has not.
Shelf& shelf() {
    static Shelf& one = []() -> Shelf& {
#if defined(__unix__) || defined(__APPLE__)
        pthread_atfork([] { shelf().mutex.lock(); }, [] { shelf().mutex.unlock(); }, [] { shelf().mutex.unlock(); });
#endif
        return *new Shelf;
    }();
    return one;
}

std::uint8_t* fresh(std::size_t size) {
    void* data = ::operator new(size, page);
#if defined(__linux__)
    if (size >= std::size_t{4} << 20) madvise(data, size, MADV_HUGEPAGE);  // advice: a refusal changes nothing
#endif
    return static_cast<std::uint8_t*>(data);
}

}  // namespace

Spare::Spare(std::size_t size) : data_(nullptr), size_((size + grain - 1) / grain * grain) {
    if (size_ == 0) return;
    {
        Shelf& at = shelf();
        const std::lock_guard lock(at.mutex);
        auto best = at.idle.end();
        for (auto it = at.idle.begin(); it != at.idle.end(); ++it) {
            if (it->size < size_ || it->size / 2 > size_) continue;
            if (best == at.idle.end() || it->size < best->size) best = it;
        }
        if (best != at.idle.end()) {
            data_ = best->data;
            size_ = best->size;
            at.kept -= size_;
            *best = at.idle.back();
            at.idle.pop_back();
            return;
        }
    }
    data_ = fresh(size_);
}

Spare::~Spare() {
    if (data_ == nullptr) return;
    Shelf& at = shelf();
    {
        const std::lock_guard lock(at.mutex);
        if (at.kept + size_ <= most_kept) {
            try {
                at.idle.push_back({data_, size_});
                at.kept += size_;
                return;
            } catch (const std::bad_alloc&) {  // then it is not kept
            }
        }
    }
    ::operator delete(data_, page);
}

}  // namespace gradwire
