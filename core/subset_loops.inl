// Included by subset.cpp, subset_avx2.cpp and subset_avx512.cpp inside a namespace of their own: shifts by a variable take
// one instruction there and three here, and these loops are little else.

// Sets a candidate's bit; returns 1 if it was not set before. No branch.
[[gnu::always_inline]] inline std::size_t insert_one(std::uint32_t candidate, std::uint64_t* bitmap) noexcept {
    const std::uint64_t before = bitmap[candidate >> 6];
    bitmap[candidate >> 6] = before | std::uint64_t{1} << (candidate & 63);
    return (~before >> (candidate & 63)) & 1;
}

std::size_t insert(Candidates candidates, std::uint64_t* bitmap) noexcept {
    std::size_t added = 0;
    for (std::size_t i = 0; i < candidates.count; ++i) added += insert_one(candidates.first[i], bitmap);
    return added;
}

std::size_t insert_two(Candidates one, Candidates other, std::uint64_t* bitmap) noexcept {
    const std::size_t both = one.count < other.count ? one.count : other.count;
    std::size_t added = 0, added_too = 0;
    for (std::size_t i = 0; i < both; ++i) {
        added += insert_one(one.first[i], bitmap);
        added_too += insert_one(other.first[i], bitmap);
    }
    added += insert({one.first + both, one.count - both}, bitmap);
    return added + added_too + insert({other.first + both, other.count - both}, bitmap);
}

void scatter(Candidates candidates, unsigned bits, std::uint32_t* lists, std::uint32_t* ends) noexcept {
    for (std::size_t i = 0; i < candidates.count; ++i) {
        std::uint32_t* const end = lists + ends[candidates.first[i] >> bits]++;
        *end = candidates.first[i];
        __builtin_prefetch(end + 16, 1);  // so many lists are more than the processor's own prefetching follows
    }
}
