#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "common/hash.h"
#include "wire/observe_messages.h"

namespace flota {

// Which keys of a table are asked for most, and how requests are spread over its shards, by a sample: one key of some
// 256, at random distances, so that an order of keys that repeats itself hides none. What is older counts less: all is
// halved now and then. Memory is bounded, whatever the keys. Thread safety: any thread; nobody waits.
class Heat {
 public:
  static constexpr uint32_t kDistance = 256;  // between two keys of the sample, on average

  void sample(std::span<const Key> keys);
  // The `most` hottest keys; their counts are at most what was sampled, and may lack what came while they were rare.
  TableHeat look(size_t most) const;

 private:
  static constexpr size_t kStripes = 4;
  static constexpr size_t kMostKeys = 1024;         // that are counted at a time
  static constexpr uint64_t kHalveAt = 1ull << 18;  // of the sample of a stripe

  struct Counts {
    uint64_t sampled = 0;
    std::array<uint32_t, kShards> shards{};
    boost::unordered_flat_map<Key, uint32_t> keys;
  };
  struct alignas(64) Stripe {
    mutable std::mutex mutex;
    uint64_t random = 0;
    size_t skip = 0;                 // keys until the next of the sample
    std::unique_ptr<Counts> counts;  // null: nothing was sampled yet
  };

  static void count(Counts& counts, Key key);
  static void forget_rare(Counts& counts);
  static void halve(Counts& counts);

  std::array<Stripe, kStripes> stripes_;
};

}  // namespace flota
