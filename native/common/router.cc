#include "common/router.h"

#include <algorithm>
#include <array>
#include <bit>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "common/check.h"

namespace flota {
namespace {

// Keys of a group that are compared with each other rather than looked up: one bit of a word each.
constexpr size_t kFew = 64;

// Which of `count` keys, at most kFew, equal `key`, a bit for each. Reads up to three keys more.
uint64_t find_among_few(const Key* keys, size_t count, Key key) {
  uint64_t equal = 0;
#if defined(__AVX2__)
  const __m256i wanted = _mm256_set1_epi64x(static_cast<long long>(key));
  for (size_t i = 0; i < count; i += 4) {
    const __m256i four = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(keys + i));
    const int mask = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(four, wanted)));
    equal |= static_cast<uint64_t>(mask) << i;
  }
  if (count < kFew) equal &= (uint64_t{1} << count) - 1;
#else
  for (size_t i = 0; i < count; ++i) equal |= static_cast<uint64_t>(keys[i] == key) << i;
#endif
  return equal;
}

}  // namespace

Router::Router(const ShardMap& map)
    : rank_of_shard_(kShards),
      first_rank_of_server_(map.servers + 1),
      group_end_(kShards),
      server_begin_(map.servers + 1) {
  uint32_t rank = 0;
  for (uint32_t server = 0; server < map.servers; ++server) {
    first_rank_of_server_[server] = rank;
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      if (map.server_of[shard] == server) rank_of_shard_[shard] = static_cast<uint16_t>(rank++);
    }
  }
  first_rank_of_server_[map.servers] = rank;
  FLOTA_CHECK(rank == kShards, "a shard map names a server that does not exist");
}

void Router::route(std::span<const Key> keys) {
  FLOTA_CHECK(keys.size() < UINT32_MAX, "too many keys in one batch");
  sort_by_rank(keys);
  remove_duplicates();
}

// By shard first: a key's duplicates are then among a few neighbours, and looking for them stays in the nearest cache.
// Stable, so that the first of several is the caller's first.
void Router::sort_by_rank(std::span<const Key> keys) {
  const size_t count = keys.size();
  rank_.resize(count);
  std::array<uint32_t, kShards + 1> at{};
  for (size_t i = 0; i < count; ++i) {
    rank_[i] = rank_of_shard_[shard_of(keys[i])];
    ++at[rank_[i] + 1u];
  }
  for (size_t rank = 0; rank < kShards; ++rank) at[rank + 1] += at[rank];
  sorted_.resize(count + 3);  // find_among_few() reads in steps of four
  sorted_from_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t to = at[rank_[i]]++;
    sorted_[to] = keys[i];
    sorted_from_[to] = static_cast<uint32_t>(i);
  }
  std::copy(at.begin(), at.begin() + kShards, group_end_.begin());
}

void Router::remove_duplicates() {
  const size_t count = rank_.size();
  place_.resize(count);
  distinct_.resize(count + 1);  // one more is written than counts
  first_.resize(count + 1);
  // Ranks that make a group: so many that it has a dozen keys, or one.
  const auto width = static_cast<uint32_t>(std::clamp<size_t>(kShards * 12 / std::max<size_t>(count, 1), 1, kShards));
  size_t begin = 0;
  size_t to = 0;
  for (uint32_t server = 0; server + 1 < server_begin_.size(); ++server) {
    server_begin_[server] = to;
    const uint32_t last = first_rank_of_server_[server + 1];
    for (uint32_t rank = first_rank_of_server_[server]; rank < last; rank += width) {
      const size_t end = group_end_[std::min(rank + width, last) - 1];
      to = end - begin <= kFew ? remove_duplicates_of_few(begin, end, to) : remove_duplicates_of_many(begin, end, to);
      begin = end;
    }
  }
  server_begin_.back() = to;
  distinct_.resize(to);
  first_.resize(to);
}

size_t Router::remove_duplicates_of_few(size_t begin, size_t end, size_t to) {
  const Key* keys = sorted_.data() + begin;
  std::array<uint32_t, kFew> place;
  for (size_t i = 0; i < end - begin; ++i) {
    const uint32_t from = sorted_from_[begin + i];
    const uint64_t equal = find_among_few(keys, i, keys[i]);
    // No branch: whether a key was there before is not predictable.
    place[i] = static_cast<uint32_t>(to);
    place[i] = place[equal != 0 ? static_cast<size_t>(std::countr_zero(equal)) : i];
    distinct_[to] = keys[i];
    first_[to] = from;
    to += equal == 0;
    place_[from] = place[i];
  }
  return to;
}

size_t Router::remove_duplicates_of_many(size_t begin, size_t end, size_t to) {
  const size_t wanted = std::bit_ceil((end - begin) * 2);
  if (slots_.size() < wanted || ++stamp_ == 0) {
    slots_.assign(std::max(wanted, slots_.size()), Slot{0, 0, 0});
    stamp_ = 1;
  }
  // A small group after a large one uses a small part of the table, which is more likely to be in a cache.
  const uint64_t mask = wanted - 1;
  for (size_t i = begin; i < end; ++i) {
    const Key key = sorted_[i];
    const uint32_t from = sorted_from_[i];
    // Low bits choose the slot; the shard is the high bits, which keys of one shard share.
    uint64_t at = hash_key(key) & mask;
    while (slots_[at].stamp == stamp_ && slots_[at].key != key) at = (at + 1) & mask;
    Slot& slot = slots_[at];
    if (slot.stamp != stamp_) {
      slot = {key, stamp_, static_cast<uint32_t>(to)};
      distinct_[to] = key;
      first_[to++] = from;
    }
    place_[from] = slot.place;
  }
  return to;
}

}  // namespace flota
