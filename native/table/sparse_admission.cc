// Which keys get rows, where not all do.
#include <bit>
#include <cmath>
#include <shared_mutex>

#include "table/sparse_run.h"

namespace flota {
namespace {

// Within [0, 1), by the table's seed, the key and the push.
double chance(uint64_t seed, uint64_t hash, uint64_t draw) {
  const uint64_t bits = hash_key(hash_key(hash_key(seed) ^ hash) + draw);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

// Whether a key without a row gets one now; `tally` brings what was seen of it in this push, and takes along all that
// was seen of it. Requires: the subtable's lock.
bool SparseTable::admits(Subtable& subtable, uint32_t number, uint64_t position, WaitingKeys::Tally& tally,
                         uint64_t draw) const {
  const AdmissionSpec& admission = spec_.admission;
  if (admission.kind == AdmissionKind::kProbability) {
    const double stays_out = std::pow(1 - admission.probability, static_cast<double>(tally.shows));
    return chance(spec_.seed, hash_of_position(number, position), draw) >= stays_out;
  }
  tally = subtable.waiting->add(position, tally.shows, tally.clicks, tally.last_seen);
  const double reached = admission.kind == AdmissionKind::kCount ? static_cast<double>(tally.shows)
                                                                 : admission.score(tally.shows, tally.clicks);
  return reached >= admission.threshold;
}

// Makes the rows of those keys of the run that are admitted now. They stay out of the run: what this push brings was
// computed without them. Returns whether the index has changed. Requires: the subtable's lock.
bool SparseTable::admit_missing(Subtable& subtable, Run& run, uint64_t seen, const Shown& shown) {
  bool changed = false;
  uint32_t outside = 0;
  for (size_t i = 0; i < run.size; ++i) {
    if (run.row[i] != nullptr) continue;
    if (changed) {
      // A key that stands twice in the run may have been let in a moment ago.
      run.entry[i] = subtable.index.find(run.position[i]);
      if (run.entry[i] != nullptr) {
        run.row[i] = subtable.arena.row(run.entry[i]->row());
        continue;
      }
    }
    outside |= 1u << i;
    WaitingKeys::Tally tally{shown.shows_of(run.first + i), shown.clicks_of(run.first + i), seen};
    if (!admits(subtable, run.subtable, run.position[i], tally, shown.draw)) continue;
    Entry* entry = create(subtable, run.subtable, run.position[i]);
    entry->set_counters(0, LastSeen(seen));
    if (spec_.admission.keeps_scores()) {
      float* score = score_of(subtable.arena.row(entry->row()));
      score[0] = tally.shows;
      score[1] = tally.clicks;
    }
    changed = true;
  }
  if (!changed) return false;
  refind(subtable, run);
  for (; outside != 0; outside &= outside - 1) run.row[std::countr_zero(outside)] = nullptr;
  return true;
}

void SparseTable::count_shown(const Run& run, const Shown& shown) const {
  for (size_t i = 0; i < run.size; ++i) {
    if (run.row[i] == nullptr) continue;
    float* score = score_of(run.row[i]);
    score[0] += shown.shows_of(run.first + i);
    score[1] += shown.clicks_of(run.first + i);
  }
}

uint64_t SparseTable::waiting() const {
  uint64_t total = 0;
  for (const auto& subtable : subtables_) {
    std::shared_lock lock(subtable->lock);
    total += subtable->waiting ? subtable->waiting->size() : 0;
  }
  return total;
}

uint64_t SparseTable::forgotten() const {
  uint64_t total = 0;
  for (const auto& subtable : subtables_) {
    std::shared_lock lock(subtable->lock);
    total += subtable->waiting ? subtable->waiting->forgotten() : 0;
  }
  return total;
}

}  // namespace flota
