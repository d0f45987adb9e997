// Eras, and rows that go.
#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cmath>
#include <mutex>
#include <shared_mutex>

#include "table/sparse_table.h"

namespace flota {
namespace {

// Removed keys that a subtable remembers, beside two for each row that it has.
constexpr size_t kFewRemoved = 4096;

}  // namespace

void SparseTable::begin_era(uint64_t era) {
  for (const auto& subtable : subtables_) {
    std::lock_guard lock(subtable->lock);
    subtable->era = std::max(subtable->era, era);
  }
}

uint64_t SparseTable::era() const {
  std::shared_lock lock(subtables_[0]->lock);
  return subtables_[0]->era;
}

void SparseTable::keep_removed(uint64_t since) {
  for (const auto& subtable : subtables_) {
    std::lock_guard lock(subtable->lock);
    subtable->removed_since = std::max(subtable->keeps_removed ? subtable->removed_since : subtable->era, since);
    subtable->keeps_removed = true;
    std::erase_if(subtable->removed, [since](const Removed& removed) { return removed.era < since; });
  }
}

uint64_t SparseTable::removed_since() const {
  uint64_t since = 0;
  for (const auto& subtable : subtables_) {
    std::shared_lock lock(subtable->lock);
    since = std::max(since, subtable->removed_since);
  }
  return since;
}

double SparseTable::norm_of(const std::byte* row) const {
  thread_local std::vector<float> weights;
  weights.resize(dim_);
  read_weights(row, weights.data());
  double sum = 0;
  for (const float weight : weights) sum += static_cast<double>(weight) * static_cast<double>(weight);
  return std::sqrt(sum);
}

bool SparseTable::stays(const ShrinkSpec& spec, const Subtable& subtable, const Entry& entry) const {
  if (spec.all) return false;
  // last_seen is rounded down, and so is what it is compared with: nothing goes that was seen since.
  if (spec.unseen_since > 0 && entry.last_seen() < LastSeen(spec.unseen_since).step()) return false;
  std::byte* row = subtable.arena.row(entry.row());
  if (spec.min_score > 0) {
    const float* score = score_of(row);
    if (spec_.admission.score(score[0], score[1]) < spec.min_score) return false;
  }
  return spec.min_norm <= 0 || norm_of(row) >= spec.min_norm;
}

// Requires: the subtable's lock.
template <class Keep>
uint64_t SparseTable::remove_all_but(Subtable& subtable, Keep keep) {
  std::vector<Entry> gone;
  boost::unordered_flat_set<uint64_t> positions;
  subtable.index.for_each([&](const Entry& entry) {
    if (keep(entry)) return;
    gone.push_back(entry);
    positions.insert(entry.position());
  });
  if (gone.empty()) return 0;
  subtable.index.retain([&](const Entry& entry) { return !positions.contains(entry.position()); });
  subtable.lines_hint.store(subtable.index.lines(), std::memory_order_relaxed);
  subtable.home_lines_hint.store(subtable.index.home_lines(), std::memory_order_relaxed);
  for (const Entry& entry : gone) {
    subtable.arena.remove(entry.row());
    if (subtable.keeps_removed) subtable.removed.push_back({entry.position(), subtable.era});
  }
  // Where nobody saves deltas, they would pile up for ever; who does later is told that some are not known.
  if (subtable.removed.size() > kFewRemoved + 2 * subtable.index.entries()) {
    std::vector<Removed>().swap(subtable.removed);
    subtable.removed_since = subtable.era + 1;
  }
  return gone.size();
}

uint64_t SparseTable::shrink(const ShrinkSpec& spec) {
  uint64_t removed = 0;
  for (const auto& subtable : subtables_) {
    std::lock_guard lock(subtable->lock);
    if (spec.decay != 1.0f && spec_.admission.keeps_scores()) {
      subtable->rescored = subtable->era;
      subtable->index.for_each([&](const Entry& entry) {
        float* score = score_of(subtable->arena.row(entry.row()));
        score[0] *= spec.decay;
        score[1] *= spec.decay;
      });
    }
    if (subtable->waiting) {
      subtable->waiting->shrink(spec.decay, spec.all ? UINT64_MAX : LastSeen(spec.unseen_since).step());
    }
    removed += remove_all_but(*subtable, [&](const Entry& entry) { return stays(spec, *subtable, entry); });
  }
  return removed;
}

void SparseTable::remove_rows(std::span<const Key> keys) {
  std::array<std::vector<uint64_t>, kSubtables> positions;
  for (const Key key : keys) {
    const uint64_t hash = hash_key(key);
    positions[subtable_of_hash(hash)].push_back(position_of_hash(hash));
  }
  for (uint32_t i = 0; i < kSubtables; ++i) {
    if (positions[i].empty()) continue;
    std::sort(positions[i].begin(), positions[i].end());
    std::lock_guard lock(subtables_[i]->lock);
    for (const uint64_t position : positions[i]) {
      if (subtables_[i]->waiting) subtables_[i]->waiting->remove(position);
    }
    remove_all_but(*subtables_[i], [&](const Entry& entry) {
      return !std::binary_search(positions[i].begin(), positions[i].end(), entry.position());
    });
  }
}

}  // namespace flota
