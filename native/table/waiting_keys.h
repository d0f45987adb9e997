#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <utility>
#include <vector>

#include "table/index.h"

namespace flota {

// What was seen of keys that have no row yet, of one subtable. Each virtual shard remembers so many of them; when it
// has as many, it forgets the half that was seen the longest ago (of those seen at the same time, by their hashes). So
// what is remembered depends on the shard's history only, not on which server holds it. Thread safety: the caller's
// lock.
class WaitingKeys {
 public:
  struct Tally {
    float shows = 0;
    float clicks = 0;
    uint64_t last_seen = 0;
  };
  using Known = std::pair<uint64_t, Tally>;  // a position, and what was seen of it

  explicit WaitingKeys(uint64_t most_a_shard) : most_(most_a_shard) {}

  // Adds to what was seen of a position. The answer is good until the next call.
  const Tally& add(uint64_t position, float shows, float clicks, uint64_t seen);
  // What was saved of a position takes the place of what is here.
  void put(uint64_t position, const Tally& tally);
  void remove(uint64_t position) { shard_of(position).erase(position); }

  // Multiplies what was seen, and forgets what was not seen since.
  void shrink(float decay, uint64_t unseen_since);

  // Those of positions from `first` to before `end`, in their order, `max` at most.
  std::vector<Known> page(uint64_t first, unsigned __int128 end, size_t max) const;

  size_t size() const;
  size_t bytes() const;
  uint64_t forgotten() const { return forgotten_; }
  void set_forgotten(uint64_t count) { forgotten_ = count; }

 private:
  using Shard = boost::unordered_flat_map<uint64_t, Tally>;

  Shard& shard_of(uint64_t position) { return shards_[position >> (64 - kShardInSubtableBits)]; }
  Tally& make_room(uint64_t position);
  void forget_half(Shard& shard);

  uint64_t most_;
  uint64_t forgotten_ = 0;
  std::array<Shard, kShardsPerSubtable> shards_;
};

}  // namespace flota
