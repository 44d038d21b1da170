// Tables of frequencies for integers in context (docs/wire-format.md, 4.5): from counts, as bytes, and what they cost.
//
// A table has context_tokens frequencies, or counts, or weights; tables lie one behind the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "integers.hpp"

namespace gradwire {

inline constexpr unsigned most_contexts = 16;
inline constexpr unsigned escape_token = token_limit;  // for numbers whose own token has no frequency
inline constexpr unsigned escape_width = 32;           // its extra bits: the number
inline constexpr unsigned context_tokens = token_limit + 1;

// The token of a number, as 4.1 defines it.
constexpr unsigned token_of(std::uint32_t v) noexcept {
    if (v < plain_limit) return v;
    const auto e = static_cast<unsigned>(std::bit_width(v)) - 1;
    return 32 + 4 * (e - 5) + ((v >> (e - 2)) & 3);
}

// tokens ← numbers, if all are plain: then they are their own tokens.
bool narrow(const std::uint32_t* v, std::size_t m, std::uint8_t* tokens) noexcept;

// Counts numbers by their own tokens, as if none was escaped, in each context; fewer than 2^32 numbers in all.
class ContextCounter {
public:
    void add(const std::uint8_t* tokens, const std::uint8_t* contexts, std::size_t m) noexcept;  // plain ones
    void add(const std::uint32_t* v, const std::uint8_t* contexts, std::size_t m) noexcept;
    // Adds what was counted to counts, one table a context; contexts are below tables.
    void add_to(std::uint64_t* counts, unsigned tables) const noexcept;

private:
    // Sets, so that equal tokens in a row do not wait for each other's increment.
    static constexpr unsigned sets = 4;
    std::uint32_t plain_[sets][most_contexts * plain_limit] = {};
    std::uint32_t other_[most_contexts][token_limit] = {};
};

// Frequencies of one table from its counts (sum at most largest_count_sum), as 4.1 pins them; of token 0 alone if
// nothing was counted.
inline constexpr std::uint64_t largest_count_sum = std::uint64_t{1} << 48;
void normalise_in_context(const std::uint64_t* counts, std::uint16_t* frequencies) noexcept;

// Each table sums to 4096.
bool tables_are_valid(const std::uint16_t* frequencies, unsigned tables) noexcept;

// What numbers cost that are counted as by count_in_contexts, in 4096ths of a bit.
std::uint64_t cost_in_context(const std::uint64_t* counts, const std::uint16_t* frequencies, unsigned tables) noexcept;

// Tables that are sent: weights, with `precision` bits behind the leading one, which the receiver makes frequencies of.
struct FittedTables {
    unsigned bits;  // of a context: there are 2^bits tables
    unsigned precision;
    std::uint16_t weights[most_contexts * context_tokens];
    std::uint16_t frequencies[most_contexts * context_tokens];
    std::uint64_t cost;  // of numbers and tables, in 4096ths of a bit
};

// For counts of 16 contexts: fewer contexts are unions of these. The encoder's choice.
void fit_tables(const std::uint64_t* counts, FittedTables& fitted) noexcept;

inline constexpr std::size_t tables_bound = 1 + most_contexts * (1 + context_tokens * (27 + 12) / 8) + write_slack;
std::uint8_t* write_tables(const FittedTables& fitted, std::uint8_t* out) noexcept;
void read_tables(ByteReader& reader, unsigned tables, std::uint16_t* frequencies);

}  // namespace gradwire
