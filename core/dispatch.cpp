#include "dispatch.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace gradwire {
namespace {

Simd best() noexcept {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                      __builtin_cpu_supports("lzcnt") && __builtin_cpu_supports("f16c");
    // The newest sub-set we use (VBMI2's 16-bit compress) decides; processors without it take the AVX2 path.
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512vbmi") &&
                        __builtin_cpu_supports("avx512vbmi2");
    return avx512 ? Simd::avx512 : avx2 ? Simd::avx2 : Simd::portable;
#else
    return Simd::portable;
#endif
}

Simd clipped(Simd wanted) noexcept { return wanted < best() ? wanted : best(); }

Simd from_environment() noexcept {
    const char* name = std::getenv("GRADWIRE_SIMD");
    if (name != nullptr && std::strcmp(name, "portable") == 0) return Simd::portable;
    if (name != nullptr && std::strcmp(name, "avx2") == 0) return clipped(Simd::avx2);
    return best();
}

std::atomic<Simd>& level() noexcept {
    static std::atomic<Simd> value{from_environment()};
    return value;
}

}  // namespace

Simd simd() noexcept { return level().load(std::memory_order_relaxed); }

Simd set_simd(Simd wanted) noexcept {
    level().store(clipped(wanted), std::memory_order_relaxed);
    return simd();
}

bool has_crc_instruction() noexcept {
#if defined(__x86_64__)
    __builtin_cpu_init();
    return simd() != Simd::portable && __builtin_cpu_supports("sse4.2");
#else
    return false;
#endif
}

}  // namespace gradwire
