#include "server/heat.h"

#include <algorithm>
#include <atomic>

namespace flota {
namespace {

size_t number_of_thread() {
  static std::atomic<size_t> next{0};
  thread_local const size_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

uint64_t next_random(uint64_t& state) { return hash_key(++state); }

}  // namespace

void Heat::sample(std::span<const Key> keys) {
  Stripe& stripe = stripes_[number_of_thread() % kStripes];
  const std::unique_lock lock(stripe.mutex, std::try_to_lock);
  if (!lock) return;  // another thread is at it: its keys will do
  size_t at = stripe.skip;
  while (at < keys.size()) {
    if (!stripe.counts) stripe.counts = std::make_unique<Counts>();
    count(*stripe.counts, keys[at]);
    at += 1 + next_random(stripe.random) % (2 * kDistance - 1);
  }
  stripe.skip = at - keys.size();
}

void Heat::count(Counts& counts, Key key) {
  ++counts.sampled;
  ++counts.shards[shard_of(key)];
  ++counts.keys[key];
  if (counts.keys.size() > kMostKeys) forget_rare(counts);
  if (counts.sampled >= kHalveAt) halve(counts);
}

void Heat::forget_rare(Counts& counts) {
  // Misra and Gries: all lose as much as the middle one has, so that those that are asked for often stay.
  std::vector<uint32_t> sorted;
  sorted.reserve(counts.keys.size());
  for (const auto& [key, count] : counts.keys) sorted.push_back(count);
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const uint32_t less = *middle;
  boost::unordered::erase_if(counts.keys, [less](auto& entry) {
    if (entry.second <= less) return true;
    entry.second -= less;
    return false;
  });
}

void Heat::halve(Counts& counts) {
  counts.sampled = 0;
  for (uint32_t& shard : counts.shards) counts.sampled += shard /= 2;
  boost::unordered::erase_if(counts.keys, [](auto& entry) { return (entry.second /= 2) == 0; });
}

TableHeat Heat::look(size_t most) const {
  TableHeat found;
  boost::unordered_flat_map<Key, uint64_t> keys;
  for (const Stripe& stripe : stripes_) {
    const std::lock_guard lock(stripe.mutex);
    if (!stripe.counts) continue;
    found.shards.resize(kShards);
    found.sampled += stripe.counts->sampled;
    for (size_t shard = 0; shard < kShards; ++shard) found.shards[shard] += stripe.counts->shards[shard];
    for (const auto& [key, count] : stripe.counts->keys) keys[key] += count;
  }
  for (const auto& [key, count] : keys) found.keys.push_back({key, count});
  auto hotter = [](const TableHeat::HotKey& a, const TableHeat::HotKey& b) {
    return a.count != b.count ? a.count > b.count : a.key < b.key;
  };
  const size_t kept = std::min(most, found.keys.size());
  std::partial_sort(found.keys.begin(), found.keys.begin() + static_cast<ptrdiff_t>(kept), found.keys.end(), hotter);
  found.keys.resize(kept);
  return found;
}

}  // namespace flota
