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
    : rank_of_shard_(kShards), first_rank_of_server_(map.servers + 1), server_begin_(map.servers + 1) {
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
  place_.resize(keys.size());
  route(keys, place_);
}

void Router::route(std::span<const Key> keys, std::span<uint32_t> place) {
  FLOTA_CHECK(keys.size() < UINT32_MAX && keys.size() == place.size(), "too many keys in one batch");
  count_ = keys.size();
  sort_by_rank(keys, rank_of_shard_, scratch());
  remove_duplicates(scratch(), place);
}

Router::Scratch& Router::scratch() {
  thread_local Scratch work;
  return work;
}

// By shard first: a key's duplicates are then among a few neighbours, and looking for them stays in the nearest cache.
// Stable, so that the first of several is the caller's first.
void Router::sort_by_rank(std::span<const Key> keys, std::span<const uint16_t> rank_of_shard, Scratch& work) {
  const size_t count = keys.size();
  work.rank.resize(count);
  work.sorted.resize(count + 3);  // find_among_few() reads in steps of four
  work.sorted_from.resize(count);
  work.group_end.resize(kShards);
  uint16_t* const ranks = work.rank.data();
  std::array<uint32_t, kShards + 1> at{};
  for (size_t i = 0; i < count; ++i) {
    ranks[i] = rank_of_shard[shard_of(keys[i])];
    ++at[ranks[i] + 1u];
  }
  for (size_t rank = 0; rank < kShards; ++rank) at[rank + 1] += at[rank];
  Key* const sorted = work.sorted.data();
  uint32_t* const sorted_from = work.sorted_from.data();
  for (size_t i = 0; i < count; ++i) {
    const uint32_t to = at[ranks[i]]++;
    sorted[to] = keys[i];
    sorted_from[to] = static_cast<uint32_t>(i);
  }
  std::copy(at.begin(), at.begin() + kShards, work.group_end.begin());
}

void Router::remove_duplicates(Scratch& work, std::span<uint32_t> place) {
  const size_t count = place.size();
  work.distinct.resize(count + 1);  // one more is written than counts
  work.first.resize(count + 1);
  // Ranks that make a group: so many that it has a dozen keys, or one.
  const auto width = static_cast<uint32_t>(std::clamp<size_t>(kShards * 12 / std::max<size_t>(count, 1), 1, kShards));
  size_t begin = 0;
  size_t to = 0;
  for (uint32_t server = 0; server + 1 < server_begin_.size(); ++server) {
    server_begin_[server] = to;
    const uint32_t last = first_rank_of_server_[server + 1];
    for (uint32_t rank = first_rank_of_server_[server]; rank < last; rank += width) {
      const size_t end = work.group_end[std::min(rank + width, last) - 1];
      to = end - begin <= kFew ? remove_duplicates_of_few(work, begin, end, to, place.data())
                               : remove_duplicates_of_many(work, begin, end, to, place.data());
      begin = end;
    }
  }
  server_begin_.back() = to;
  distinct_.assign(work.distinct.begin(), work.distinct.begin() + static_cast<ptrdiff_t>(to));
  first_.assign(work.first.begin(), work.first.begin() + static_cast<ptrdiff_t>(to));
}

size_t Router::remove_duplicates_of_few(Scratch& work, size_t begin, size_t end, size_t to, uint32_t* place) {
  const Key* keys = work.sorted.data() + begin;
  const uint32_t* sorted_from = work.sorted_from.data() + begin;
  Key* const distinct = work.distinct.data();
  uint32_t* const first = work.first.data();
  std::array<uint32_t, kFew> found;
  for (size_t i = 0; i < end - begin; ++i) {
    const uint32_t from = sorted_from[i];
    const uint64_t equal = find_among_few(keys, i, keys[i]);
    // No branch: whether a key was there before is not predictable.
    found[i] = static_cast<uint32_t>(to);
    found[i] = found[equal != 0 ? static_cast<size_t>(std::countr_zero(equal)) : i];
    distinct[to] = keys[i];
    first[to] = from;
    to += equal == 0;
    place[from] = found[i];
  }
  return to;
}

size_t Router::remove_duplicates_of_many(Scratch& work, size_t begin, size_t end, size_t to, uint32_t* place) {
  std::vector<Slot>& slots = work.slots;
  const size_t wanted = std::bit_ceil((end - begin) * 2);
  if (slots.size() < wanted || ++work.stamp == 0) {
    slots.assign(std::max(wanted, slots.size()), Slot{0, 0, 0});
    work.stamp = 1;
  }
  const uint32_t stamp = work.stamp;
  // A small group after a large one uses a small part of the table, which is more likely to be in a cache.
  const uint64_t mask = wanted - 1;
  for (size_t i = begin; i < end; ++i) {
    const Key key = work.sorted[i];
    const uint32_t from = work.sorted_from[i];
    // Low bits choose the slot; the shard is the high bits, which keys of one shard share.
    uint64_t at = hash_key(key) & mask;
    while (slots[at].stamp == stamp && slots[at].key != key) at = (at + 1) & mask;
    Slot& slot = slots[at];
    if (slot.stamp != stamp) {
      slot = {key, stamp, static_cast<uint32_t>(to)};
      work.distinct[to] = key;
      work.first[to++] = from;
    }
    place[from] = slot.place;
  }
  return to;
}

}  // namespace flota
