#include "client/router.h"

#include <array>
#include <bit>

#include "common/check.h"

namespace flota {

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
  FLOTA_CHECK(keys.size() < UINT32_MAX, "too many keys in one batch");
  find_distinct(keys);
  order(keys);
}

void Router::find_distinct(std::span<const Key> keys) {
  const size_t wanted = std::bit_ceil(keys.size() * 2 + 16);
  if (slots_.size() < wanted || ++stamp_ == 0) {
    slots_.assign(std::max(wanted, slots_.size()), Slot{0, 0, 0});
    stamp_ = 1;
  }
  // A small batch after a large one uses a small part of the table, which is more likely to be in a cache.
  const uint64_t mask = wanted - 1;
  place_.resize(keys.size());
  found_at_.resize(keys.size());
  rank_.resize(keys.size());
  constexpr size_t kAhead = 16;
  uint32_t count = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kAhead < keys.size()) __builtin_prefetch(&slots_[hash_key(keys[i + kAhead]) & mask], 1);
    const uint64_t hash = hash_key(keys[i]);
    uint64_t at = hash & mask;
    // Low bits choose the slot; the shard is the high bits, which keys of one shard share.
    while (slots_[at].stamp == stamp_ && slots_[at].key != keys[i]) at = (at + 1) & mask;
    Slot& slot = slots_[at];
    if (slot.stamp != stamp_) {
      slot = {keys[i], stamp_, count};
      found_at_[count] = static_cast<uint32_t>(i);
      rank_[count] = rank_of_shard_[shard_of_hash(hash)];
      ++count;
    }
    place_[i] = slot.id;
  }
  distinct_.resize(count);
}

void Router::order(std::span<const Key> keys) {
  const size_t count = distinct_.size();
  std::array<uint32_t, kShards + 1> start{};
  for (size_t id = 0; id < count; ++id) ++start[rank_[id] + 1u];
  for (size_t rank = 0; rank < kShards; ++rank) start[rank + 1] += start[rank];
  for (size_t server = 0; server < server_begin_.size(); ++server) {
    server_begin_[server] = start[first_rank_of_server_[server]];
  }
  moved_to_.resize(count);
  first_.resize(count);
  for (size_t id = 0; id < count; ++id) {
    uint32_t to = start[rank_[id]]++;
    moved_to_[id] = to;
    first_[to] = found_at_[id];
    distinct_[to] = keys[found_at_[id]];
  }
  for (uint32_t& place : place_) place = moved_to_[place];
}

}  // namespace flota
