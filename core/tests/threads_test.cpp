// The pool: every part once, whoever does it; the lowest error; nested and simultaneous calls; fork.
#include "threads.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "spare.hpp"

using namespace gradwire;

namespace {

constexpr std::size_t much = std::size_t{1} << 30;  // entries that are worth every thread

void every_part_once(std::size_t parts) {
    std::vector<std::atomic<int>> done(parts);
    in_parallel(parts, much, [&](std::size_t part) { ++done[part]; });
    for (const auto& count : done) CHECK(count == 1);
}

void test_parts() {
    for (unsigned count = 1; count <= 5; ++count) {
        set_threads(count);
        CHECK(threads() == count);
        for (std::size_t parts = 0; parts < 40; ++parts) every_part_once(parts);
        every_part_once(100'000);
    }
    set_threads(0);
    CHECK(threads() == 1);
    set_threads(1'000'000);
    CHECK(threads() == most_threads);
}

void test_pieces() {
    for (const std::size_t n : {0ul, 1ul, 999ul, 1000ul, 1001ul, 500'000ul}) {
        std::atomic<std::size_t> sum{0}, calls{0};
        in_parallel_pieces(n, 1000, [&](std::size_t begin, std::size_t size) {
            CHECK(size >= 1 && size <= 1000 && begin % 1000 == 0);
            sum += size;
            ++calls;
        });
        CHECK(sum == n && calls == (n + 999) / 1000);
    }
}

bool within_seconds(const std::atomic<unsigned>& value, unsigned wanted) {
    for (int i = 0; i < 20'000 && value < wanted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return value >= wanted;
}

// Parts that wait for each other come to an end only if as many threads are at work.
void test_threads_work_at_once(unsigned count) {
    set_threads(count);
    std::atomic<unsigned> here{0};
    in_parallel(count, much, [&](std::size_t) {
        ++here;
        CHECK(within_seconds(here, count));
    });
}

void test_no_more_threads_than_set() {
    set_threads(3);
    std::atomic<int> here{0}, most{0};
    in_parallel(300, much, [&](std::size_t) {
        const int now = ++here;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        --here;
    });
    CHECK(most >= 1 && most <= 3);
}

void test_small_work_wakes_nobody() {
    set_threads(4);
    const auto caller = std::this_thread::get_id();
    in_parallel(1000, worth_threads - 1, [&](std::size_t) { CHECK(std::this_thread::get_id() == caller); });
}

void test_lowest_error() {
    for (unsigned count = 1; count <= 4; ++count) {
        set_threads(count);
        for (int round = 0; round < 50; ++round) {
            std::string text;
            try {
                in_parallel(200, much, [&](std::size_t part) {
                    if (part == 37) std::this_thread::sleep_for(std::chrono::microseconds(200));
                    if (part >= 37) throw std::runtime_error(std::to_string(part));
                });
            } catch (const std::runtime_error& error) {
                text = error.what();
            }
            CHECK(text == "37");
        }
        every_part_once(50);  // and the pool still serves
    }
}

void test_nested() {
    set_threads(3);
    std::atomic<std::size_t> done{0};
    in_parallel(8, much, [&](std::size_t) {
        const auto outer = std::this_thread::get_id();
        in_parallel(8, much, [&](std::size_t) {
            CHECK(std::this_thread::get_id() == outer);
            ++done;
        });
    });
    CHECK(done == 64);
}

// While one call has the pool, another does all its parts itself.
void test_busy_pool() {
    set_threads(2);
    std::atomic<unsigned> inside{0}, released{0};
    std::thread first([&] {
        in_parallel(2, much, [&](std::size_t) {
            ++inside;
            CHECK(within_seconds(released, 1));
        });
    });
    CHECK(within_seconds(inside, 2));
    const auto caller = std::this_thread::get_id();
    in_parallel(100, much, [&](std::size_t) { CHECK(std::this_thread::get_id() == caller); });
    ++released;
    first.join();
}

void test_many_callers() {
    set_threads(3);
    std::vector<std::thread> callers;
    for (int c = 0; c < 6; ++c)
        callers.emplace_back([] {
            for (int i = 0; i < 200; ++i) every_part_once(17);
        });
    for (std::thread& caller : callers) caller.join();
}

bool child_succeeds() {
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);  // a child that hangs is a failure
        const Spare scratch(1 << 20);
        test_threads_work_at_once(2);
        every_part_once(1000);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The threads of the parent, idle or at work, are not there in the child.
void test_fork() {
    CHECK(child_succeeds());
    set_threads(2);
    std::atomic<unsigned> inside{0}, released{0};
    std::thread first([&] {
        in_parallel(2, much, [&](std::size_t) {
            ++inside;
            CHECK(within_seconds(released, 1));
        });
    });
    CHECK(within_seconds(inside, 2));
    CHECK(child_succeeds());
    ++released;
    first.join();
    std::atomic<bool> stop{false};
    std::thread taker([&] {
        while (!stop) const Spare taken(1 << 16);
    });
    for (int i = 0; i < 20; ++i) CHECK(child_succeeds());
    stop = true;
    taker.join();
}

}  // namespace

int main() {
    test_parts();
    test_pieces();
    for (unsigned count = 1; count <= 4; ++count) test_threads_work_at_once(count);
    test_no_more_threads_than_set();
    test_small_work_wakes_nobody();
    test_lowest_error();
    test_nested();
    test_busy_pool();
    test_many_callers();
    test_fork();
}
