#include <immintrin.h>

#include "count_loops.hpp"

namespace gradwire {
namespace {

__m256i same(unsigned byte) noexcept { return _mm256_set1_epi8(static_cast<char>(byte)); }

struct Registers {
    using Value = __m256i;
    static constexpr std::size_t width = 32;

    static Value zero() noexcept { return _mm256_setzero_si256(); }
    static Value load(const std::uint8_t* p) noexcept { return _mm256_loadu_si256(reinterpret_cast<const Value*>(p)); }
    static Value sum(Value a, Value b, Value c) noexcept { return _mm256_xor_si256(a, _mm256_xor_si256(b, c)); }
    static Value majority(Value a, Value b, Value c) noexcept {
        return _mm256_or_si256(_mm256_and_si256(b, c), _mm256_and_si256(a, _mm256_xor_si256(b, c)));
    }
    static Value one_hot(Value tokens, unsigned first) noexcept {
        const Value bits = _mm256_broadcastsi128_si256(_mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0));
        return _mm256_shuffle_epi8(bits, _mm256_min_epu8(_mm256_sub_epi8(tokens, same(first)), same(15)));
    }
    static Value add_bit(Value counts, Value a, unsigned s) noexcept { return _mm256_sub_epi8(counts, has(a, s)); }
    static std::uint32_t total(Value counts) noexcept {
        alignas(32) std::uint64_t sums[4];
        _mm256_store_si256(reinterpret_cast<Value*>(sums), _mm256_sad_epu8(counts, zero()));
        return static_cast<std::uint32_t>(sums[0] + sums[1] + sums[2] + sums[3]);
    }
    static std::uint32_t ones(Value a, unsigned s) noexcept {
        return static_cast<std::uint32_t>(_mm_popcnt_u32(static_cast<std::uint32_t>(_mm256_movemask_epi8(has(a, s)))));
    }
    static Value largest(Value a, Value b) noexcept { return _mm256_max_epu8(a, b); }
    static std::uint32_t reaching(Value a, unsigned low) noexcept {
        return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(a, same(low)), a)));
    }

private:
    static Value has(Value a, unsigned s) noexcept {
        return _mm256_cmpeq_epi8(_mm256_and_si256(a, same(1u << s)), same(1u << s));
    }
};

}  // namespace

std::size_t count_tokens_avx2(const std::uint8_t* tokens, std::size_t m, std::uint32_t* counts) noexcept {
    return count_whole_registers<Registers>(tokens, m, counts);
}

}  // namespace gradwire
