#include "table/waiting_keys.h"

#include <algorithm>

namespace flota {

const WaitingKeys::Tally& WaitingKeys::add(uint64_t position, float shows, float clicks, uint64_t seen) {
  Tally& tally = make_room(position);
  tally.shows += shows;
  tally.clicks += clicks;
  tally.last_seen = std::max(tally.last_seen, seen);
  return tally;
}

void WaitingKeys::put(uint64_t position, const Tally& tally) { make_room(position) = tally; }

WaitingKeys::Tally& WaitingKeys::make_room(uint64_t position) {
  Shard& shard = shard_of(position);
  const auto found = shard.find(position);
  if (found != shard.end()) return found->second;
  if (shard.size() >= most_) forget_half(shard);
  return shard[position];
}

void WaitingKeys::forget_half(Shard& shard) {
  using Age = std::pair<uint64_t, uint64_t>;  // when it was seen, and its position
  std::vector<Age> ages;
  ages.reserve(shard.size());
  for (const auto& [position, tally] : shard) ages.emplace_back(tally.last_seen, position);
  const auto middle = ages.begin() + static_cast<ptrdiff_t>((ages.size() + 1) / 2);
  std::nth_element(ages.begin(), middle, ages.end());
  for (auto age = ages.begin(); age != middle; ++age) shard.erase(age->second);
  forgotten_ += static_cast<uint64_t>(middle - ages.begin());
}

void WaitingKeys::shrink(float decay, uint64_t unseen_since) {
  for (Shard& shard : shards_) {
    boost::unordered::erase_if(shard, [&](auto& entry) {
      entry.second.shows *= decay;
      entry.second.clicks *= decay;
      return entry.second.last_seen < unseen_since;
    });
  }
}

std::vector<WaitingKeys::Known> WaitingKeys::page(uint64_t first, unsigned __int128 end, size_t max) const {
  std::vector<Known> found;
  const auto last = static_cast<uint64_t>(end - 1);
  for (uint64_t i = first >> (64 - kShardInSubtableBits); i <= last >> (64 - kShardInSubtableBits); ++i) {
    for (const auto& entry : shards_[i]) {
      if (entry.first >= first && entry.first < end) found.emplace_back(entry);
    }
  }
  const auto by_position = [](const Known& a, const Known& b) { return a.first < b.first; };
  if (found.size() > max) {
    std::nth_element(found.begin(), found.begin() + static_cast<ptrdiff_t>(max), found.end(), by_position);
    found.resize(max);
  }
  std::sort(found.begin(), found.end(), by_position);
  return found;
}

size_t WaitingKeys::bytes() const {
  size_t total = 0;
  for (const Shard& shard : shards_) total += shard.bucket_count() * (sizeof(Shard::value_type) + 1);
  return total;
}

size_t WaitingKeys::size() const {
  size_t total = 0;
  for (const Shard& shard : shards_) total += shard.size();
  return total;
}

}  // namespace flota
