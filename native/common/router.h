#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/hash.h"
#include "common/shard_map.h"

namespace flota {

// A batch of keys made ready to be sent: each distinct key once, ordered by server and then by shard, and the way back
// to the caller's order. What it needs on the way belongs to the thread, so that a new one costs no memory but its
// results. Thread safety: one thread at a time.
class Router {
 public:
  explicit Router(const ShardMap& map);

  // Requires: fewer than 2^32 keys. What the accessors show is valid until the next call.
  void route(std::span<const Key> keys);
  // The same, with the places to where the caller wants them instead of place(). Requires: as long as keys.
  void route(std::span<const Key> keys, std::span<uint32_t> place);

  std::span<const Key> distinct() const { return distinct_; }
  // The stretch of distinct() that belongs to `server`.
  size_t begin(uint32_t server) const { return server_begin_[server]; }
  size_t end(uint32_t server) const { return server_begin_[server + 1]; }
  // For each of the caller's keys, its place in distinct().
  std::span<const uint32_t> place() const { return place_; }
  // For each distinct key, where the caller has it first.
  std::span<const uint32_t> first() const { return first_; }
  bool has_duplicates() const { return distinct_.size() != count_; }

 private:
  friend struct RouterProbe;  // of the tests: some states take years to come about

  struct Slot {
    Key key;
    uint32_t stamp;  // the group that wrote the slot; an older one means empty, so that nothing needs clearing
    uint32_t place;
  };

  struct Scratch {
    std::vector<uint16_t> rank;         // of the caller's keys
    std::vector<Key> sorted;            // the caller's keys by rank,
    std::vector<uint32_t> sorted_from;  // where the caller has them,
    std::vector<uint32_t> group_end;    // and where each rank ends
    std::vector<Slot> slots;
    uint32_t stamp = 0;
    std::vector<Key> distinct;
    std::vector<uint32_t> first;
  };

  static Scratch& scratch();  // of this thread
  static void sort_by_rank(std::span<const Key> keys, std::span<const uint16_t> rank_of_shard, Scratch& work);
  void remove_duplicates(Scratch& work, std::span<uint32_t> place);
  static size_t remove_duplicates_of_few(Scratch& work, size_t begin, size_t end, size_t to, uint32_t* place);
  static size_t remove_duplicates_of_many(Scratch& work, size_t begin, size_t end, size_t to, uint32_t* place);

  std::vector<uint16_t> rank_of_shard_;         // the shard's place in the order of sending
  std::vector<uint32_t> first_rank_of_server_;  // and where each server begins in it
  size_t count_ = 0;                            // of the caller's keys
  std::vector<uint32_t> place_;
  std::vector<Key> distinct_;
  std::vector<uint32_t> first_;
  std::vector<size_t> server_begin_;
};

}  // namespace flota
