// Export and import of whole rows, a bounded page at a time.
#include <algorithm>
#include <iterator>
#include <mutex>
#include <shared_mutex>

#include "common/check.h"
#include "table/sparse_table.h"

namespace flota {
// A shard is one stretch of positions, because both numbers are leading bits of the hash.
SparseTable::Stretch SparseTable::stretch_of(uint32_t shard) {
  FLOTA_CHECK(shard < kShards, "export: there are 1,024 shards");
  const uint64_t begin = uint64_t{shard % kShardsPerSubtable} << (64 - kShardInSubtableBits);
  const auto end = static_cast<unsigned __int128>(begin) + (1ull << (64 - kShardInSubtableBits));
  return {shard / kShardsPerSubtable, begin, end};
}

RowPage SparseTable::export_shard(uint32_t shard, uint64_t cursor, size_t max_rows, uint64_t since) const {
  const Stretch stretch = stretch_of(shard);
  const Subtable& subtable = *subtables_[stretch.subtable];
  std::shared_lock lock(subtable.lock);
  // Scores that have faded are other scores: all rows have changed.
  const uint64_t from = subtable.rescored >= since ? 0 : LastSeen(since).step();
  return page_of_entries(subtable, stretch.subtable, std::max(cursor, stretch.begin), stretch.end, max_rows, from);
}

RowPage SparseTable::export_waiting(uint32_t shard, uint64_t cursor, size_t max_rows) const {
  const Stretch stretch = stretch_of(shard);
  const Subtable& subtable = *subtables_[stretch.subtable];
  RowPage page;
  page.done = true;
  if (!subtable.waiting) return page;
  std::shared_lock lock(subtable.lock);
  const auto known = subtable.waiting->page(std::max(cursor, stretch.begin), stretch.end, max_rows);
  for (const auto& [position, tally] : known) {
    page.keys.push_back(unhash_key(hash_of_position(stretch.subtable, position)));
    page.updates.push_back(0);
    page.last_seen.push_back(tally.last_seen);
    page.weights.insert(page.weights.end(), {tally.shows, tally.clicks});
  }
  page.done = known.size() < max_rows;
  page.next = page.done ? 0 : known.back().first + 1;
  return page;
}

RowPage SparseTable::export_removed(uint32_t shard, uint64_t cursor, size_t max_rows, uint64_t since) const {
  const Stretch stretch = stretch_of(shard);
  const Subtable& subtable = *subtables_[stretch.subtable];
  std::shared_lock lock(subtable.lock);
  const uint64_t first = std::max(cursor, stretch.begin);
  std::vector<Removed> found;
  std::copy_if(subtable.removed.begin(), subtable.removed.end(), std::back_inserter(found),
               [&](const Removed& removed) {
                 return removed.era >= since && removed.position >= first && removed.position < stretch.end;
               });
  // A key may have been removed, made and removed again: once is enough.
  std::sort(found.begin(), found.end(), [](const Removed& a, const Removed& b) { return a.position < b.position; });
  const auto same = [](const Removed& a, const Removed& b) { return a.position == b.position; };
  found.erase(std::unique(found.begin(), found.end(), same), found.end());
  RowPage page;
  page.done = found.size() <= max_rows;
  if (!page.done) found.resize(max_rows);
  for (const Removed& removed : found) {
    page.keys.push_back(unhash_key(hash_of_position(stretch.subtable, removed.position)));
    page.updates.push_back(0);
    page.last_seen.push_back(removed.era);
  }
  page.next = page.done ? 0 : found.back().position + 1;
  return page;
}

RowPage SparseTable::page_of_entries(const Subtable& subtable, uint32_t number, uint64_t cursor, unsigned __int128 end,
                                     size_t max_rows, uint64_t since) const {
  RowPage page;
  page.done = true;
  const Index& index = subtable.index;
  if (index.entries() == 0 || cursor >= end) return page;

  // The page ends where some line begins: from there on no entry has its home before that line, so the next page
  // continues from a position and does not care whether the index has grown meanwhile.
  const uint64_t first_line = static_cast<uint64_t>(index.home(cursor) - index.lines());
  uint64_t line = first_line;
  size_t seen = 0;
  while (line < index.home_lines() && (seen == 0 || seen < max_rows) && index.first_position(line) < end) {
    for (const Entry& entry : index.lines()[line].entries) seen += entry.row() != 0;
    ++line;
  }
  unsigned __int128 limit = std::min(end, index.first_position(line));
  for (uint64_t i = first_line; i < index.all_lines(); ++i) {
    // Entries of this page may have overflowed past its last line, through full lines only.
    if (i >= line && !index.lines()[i - 1].full()) break;
    for (const Entry& entry : index.lines()[i].entries) {
      if (entry.row() == 0 || entry.position() < cursor || entry.position() >= limit) continue;
      if (entry.last_seen() < since) continue;
      const std::byte* row = subtable.arena.row(entry.row());
      page.keys.push_back(unhash_key(hash_of_position(number, entry.position())));
      page.updates.push_back(entry.updates());
      page.last_seen.push_back(entry.last_seen());
      page.weights.resize(page.weights.size() + dim_);
      read_weights(row, page.weights.data() + page.weights.size() - dim_);
      const auto* state = reinterpret_cast<const float*>(row + weight_bytes_);
      page.state.insert(page.state.end(), state, state + state_floats_);
    }
  }
  page.done = limit >= end;
  page.next = page.done ? 0 : static_cast<uint64_t>(limit);
  return page;
}

void SparseTable::import_rows(const RowPage& page) {
  const size_t count = page.keys.size();
  FLOTA_CHECK(page.updates.size() == count && page.last_seen.size() == count, "import: counters of another size");
  FLOTA_CHECK(page.weights.size() == count * dim_, "import: weights of another size");
  FLOTA_CHECK(page.state.size() == count * state_floats_, "import: state of another size");
  for (size_t i = 0; i < count; ++i) {
    const uint64_t hash = hash_key(page.keys[i]);
    const uint32_t number = subtable_of_hash(hash);
    Subtable& subtable = *subtables_[number];
    std::unique_lock lock(subtable.lock);
    Entry* entry = subtable.index.find(position_of_hash(hash));
    if (entry == nullptr) entry = create(subtable, number, position_of_hash(hash));
    std::byte* row = subtable.arena.row(entry->row());
    write_weights(row, page.weights.data() + i * dim_);
    std::copy_n(page.state.data() + i * state_floats_, state_floats_, state_of(row));
    entry->set_counters(page.updates[i], LastSeen(std::max(page.last_seen[i], subtable.era)));
    if (subtable.waiting) subtable.waiting->remove(position_of_hash(hash));
  }
}

void SparseTable::import_waiting(const RowPage& page) {
  const size_t count = page.keys.size();
  FLOTA_CHECK(page.last_seen.size() == count && page.weights.size() == count * kScoreFloats,
              "import: columns of another size");
  for (size_t i = 0; i < count; ++i) {
    const uint64_t hash = hash_key(page.keys[i]);
    Subtable& subtable = *subtables_[subtable_of_hash(hash)];
    std::lock_guard lock(subtable.lock);
    // One that was let in while it was saved has a row as well.
    if (!subtable.waiting || subtable.index.find(position_of_hash(hash)) != nullptr) continue;
    const float* tally = page.weights.data() + i * kScoreFloats;
    subtable.waiting->put(position_of_hash(hash), {tally[0], tally[1], std::max(page.last_seen[i], subtable.era)});
  }
}

}  // namespace flota
