#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/hash.h"
#include "common/shard_map.h"

namespace flota {

// A batch of keys made ready to be sent: each distinct key once, ordered by server and then by shard, and the way back
// to the caller's order. Keeps its memory for the next batch. Thread safety: one thread at a time.
class Router {
 public:
  explicit Router(const ShardMap& map);

  // Requires: fewer than 2^32 keys. What the accessors show is valid until the next call.
  void route(std::span<const Key> keys);

  std::span<const Key> distinct() const { return distinct_; }
  // The stretch of distinct() that belongs to `server`.
  size_t begin(uint32_t server) const { return server_begin_[server]; }
  size_t end(uint32_t server) const { return server_begin_[server + 1]; }
  // For each of the caller's keys, its place in distinct().
  std::span<const uint32_t> place() const { return place_; }
  // For each distinct key, where the caller has it first.
  std::span<const uint32_t> first() const { return first_; }
  bool has_duplicates() const { return distinct_.size() != place_.size(); }

 private:
  struct Slot {
    Key key;
    uint32_t stamp;  // the group that wrote the slot; an older one means empty, so that nothing needs clearing
    uint32_t place;
  };

  void sort_by_rank(std::span<const Key> keys);
  void remove_duplicates();
  size_t remove_duplicates_of_few(size_t begin, size_t end, size_t to);
  size_t remove_duplicates_of_many(size_t begin, size_t end, size_t to);

  std::vector<uint16_t> rank_of_shard_;         // the shard's place in the order of sending
  std::vector<uint32_t> first_rank_of_server_;  // and where each server begins in it
  std::vector<uint16_t> rank_;                  // of the caller's keys
  std::vector<Key> sorted_;                     // the caller's keys by rank,
  std::vector<uint32_t> sorted_from_;           // where the caller has them,
  std::vector<uint32_t> group_end_;             // and where each rank ends
  std::vector<Slot> slots_;
  uint32_t stamp_ = 0;
  std::vector<uint32_t> place_;
  std::vector<Key> distinct_;
  std::vector<uint32_t> first_;
  std::vector<size_t> server_begin_;
};

}  // namespace flota
