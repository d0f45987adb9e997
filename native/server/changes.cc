#include "server/changes.h"

#include <algorithm>

namespace flota {

void Changes::note(uint32_t rank, std::span<const Key> keys) {
  std::lock_guard lock(mutex_);
  ++version_;
  for (Key key : keys) {
    Last& last = last_[key];
    if (last.version != 0 && last.rank != rank) last.other = last.version;
    last.version = version_;
    last.rank = rank;
  }
  log_.push_back({version_, {keys.begin(), keys.end()}});
  logged_ += keys.size();
  if (logged_ > 2 * last_.size()) compact();
}

// Forgets what was changed again later. Half of the log is such, so this costs a constant for each key noted.
void Changes::compact() {
  logged_ = 0;
  for (Chunk& chunk : log_) {
    std::erase_if(chunk.keys, [&](Key key) { return last_.at(key).version != chunk.version; });
    chunk.keys.shrink_to_fit();
    logged_ += chunk.keys.size();
  }
  std::erase_if(log_, [](const Chunk& chunk) { return chunk.keys.empty(); });
}

Changes::Page Changes::others(uint32_t rank, uint64_t since, uint64_t after, size_t most) const {
  std::lock_guard lock(mutex_);
  Page page;
  auto chunk = std::upper_bound(log_.begin(), log_.end(), after,
                                [](uint64_t version, const Chunk& other) { return version < other.version; });
  for (; chunk != log_.end(); ++chunk) {
    if (page.keys.size() >= most) {
      page.done = false;
      return page;
    }
    for (Key key : chunk->keys) {
      const Last& last = last_.at(key);
      if (last.version == chunk->version && (last.rank != rank || last.other > since)) page.keys.push_back(key);
    }
    page.version = chunk->version;
  }
  page.version = version_;
  return page;
}

}  // namespace flota
