#include "threads.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace gradwire {
namespace {

std::atomic<unsigned> setting{1};

// A call's parts. Whoever works on it takes the next one until there is none.
class Job {
public:
    Job(std::size_t parts, detail::Part call, const void* work) noexcept : parts_(parts), call_(call), work_(work) {}

    void take_parts() noexcept {
        for (std::size_t part; (part = next_.fetch_add(1, std::memory_order_relaxed)) < parts_;) {
            try {
                call_(work_, part);
            } catch (...) {
                failed(part);
            }
        }
    }

    // When nobody works on it any more.
    void raise() const {
        if (error_) std::rethrow_exception(error_);
    }

private:
    // Parts are taken in ascending order: those below this one are begun, and may still raise themselves.
    void failed(std::size_t part) noexcept {
        next_.store(parts_, std::memory_order_relaxed);
        const std::lock_guard lock(mutex_);
        if (error_ && failed_ < part) return;
        error_ = std::current_exception();
        failed_ = part;
    }

    const std::size_t parts_;
    const detail::Part call_;
    const void* const work_;
    std::atomic<std::size_t> next_{0};
    std::mutex mutex_;
    std::exception_ptr error_;
    std::size_t failed_ = 0;
};

// Threads that sleep until there is a job. Whoever brings it works too, and does not wait for a thread that has not
// begun: one that wakes late finds nothing to do.
class Pool {
public:
    // False if another call has the pool.
    bool run(Job& job, unsigned others) {
        if (busy_.exchange(true, std::memory_order_acquire)) return false;
        {
            const std::lock_guard lock(mutex_);
            while (started_ < others && start()) {
            }
            others = std::min(others, started_);
            job_ = &job;
            places_ = others;
        }
        for (unsigned i = 0; i < others; ++i) wake_.notify_one();
        job.take_parts();
        {
            std::unique_lock lock(mutex_);
            job_ = nullptr;
            places_ = 0;
            done_.wait(lock, [this] { return working_ == 0; });
        }
        busy_.store(false, std::memory_order_release);
        return true;
    }

private:
    bool start() {
        try {
            std::thread([this] { serve(); }).detach();
        } catch (const std::system_error&) {  // then there are fewer
            return false;
        }
        ++started_;
        return true;
    }

    [[noreturn]] void serve() {
        std::unique_lock lock(mutex_);
        for (;;) {
            wake_.wait(lock, [this] { return places_ > 0; });
            --places_;
            ++working_;
            Job& job = *job_;
            lock.unlock();
            job.take_parts();
            lock.lock();
            if (--working_ == 0) done_.notify_one();
        }
    }

    std::atomic<bool> busy_{false};
    std::mutex mutex_;
    std::condition_variable wake_, done_;
    Job* job_ = nullptr;
    unsigned places_ = 0;   // threads that may still join the job
    unsigned working_ = 0;  // threads that are at it
    unsigned started_ = 0;
};

// Never destroyed: its threads sleep in it while the program ends. A child of fork has none of them, and makes its own.
std::atomic<Pool*> pool_here{nullptr};

Pool& pool() {
#if defined(__unix__) || defined(__APPLE__)
    static const int registered = pthread_atfork(nullptr, nullptr, [] { pool_here.store(nullptr); });
    (void)registered;
#endif
    Pool* found = pool_here.load(std::memory_order_acquire);
    if (found == nullptr) {
        auto* const made = new Pool;
        if (pool_here.compare_exchange_strong(found, made, std::memory_order_acq_rel)) return *made;
        delete made;  // another thread was first
    }
    return *found;
}

}  // namespace

unsigned threads() noexcept { return setting.load(std::memory_order_relaxed); }

void set_threads(unsigned count) noexcept {
    setting.store(std::clamp(count, 1u, most_threads), std::memory_order_relaxed);
}

void detail::run_parts(std::size_t parts, Part call, const void* work) {
    Job job(parts, call, work);
    const auto others = static_cast<unsigned>(std::min<std::size_t>(threads(), parts)) - 1;
    if (others == 0 || !pool().run(job, others)) job.take_parts();
    job.raise();
}

}  // namespace gradwire
