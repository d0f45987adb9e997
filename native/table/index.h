#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "common/hash.h"
#include "table/pages.h"

// The index of one subtable: hashes to row numbers and counters, in lines of one cache line each.
//
// A subtable owns the keys whose hash begins with its number (6 bits), so an entry needs the other 58 bits only:
//
//   tag   63 .. 6  hash << 6          5 .. 0  last_seen, exponent
//   data  63 .. 46 last_seen, mantissa   45 .. 26 updates (stays at its maximum)   25 .. 0 row number, 0: empty
//
// Four entries fill a cache line, so a lookup that hits its home line costs one memory access, and a push finds the
// counters it must change in the line it has read anyway. Measured against separate counters: docs/decisions/0002.
namespace flota {

inline constexpr uint32_t kSubtableBits = 6;
inline constexpr uint32_t kSubtables = 1u << kSubtableBits;

constexpr uint32_t subtable_of_hash(uint64_t hash) { return static_cast<uint32_t>(hash >> (64 - kSubtableBits)); }
// A hash's place within its subtable: what entries store and what lines are ordered by.
constexpr uint64_t position_of_hash(uint64_t hash) { return hash << kSubtableBits; }
constexpr uint64_t hash_of_position(uint32_t subtable, uint64_t position) {
  return (uint64_t{subtable} << (64 - kSubtableBits)) | (position >> kSubtableBits);
}

// A subtable holds whole virtual shards: both are leading bits of the hash.
inline constexpr uint32_t kShardInSubtableBits = kShardBits - kSubtableBits;
inline constexpr uint32_t kShardsPerSubtable = 1u << kShardInSubtableBits;

// A step rounded down to 18 significant bits: exact below 2^18, and within a 100,000th above.
struct LastSeen {
  static constexpr uint32_t kBits = 18;

  explicit LastSeen(uint64_t step)
      : exponent(step >> kBits == 0 ? 0 : 64 - kBits - static_cast<uint32_t>(__builtin_clzll(step))),
        mantissa(step >> exponent) {}

  uint64_t step() const { return mantissa << exponent; }

  uint32_t exponent;
  uint64_t mantissa;
};

struct Entry {
  static constexpr uint64_t kRowMask = (1ull << 26) - 1;
  static constexpr uint32_t kUpdatesShift = 26;
  static constexpr uint64_t kMaxUpdates = (1ull << 20) - 1;
  static constexpr uint32_t kSeenShift = 46;
  static constexpr uint64_t kExponentMask = (1ull << kSubtableBits) - 1;

  uint64_t tag;
  uint64_t data;

  uint32_t row() const { return static_cast<uint32_t>(data & kRowMask); }
  uint64_t position() const { return tag & ~kExponentMask; }

  uint64_t updates() const { return (data >> kUpdatesShift) & kMaxUpdates; }

  uint64_t last_seen() const { return (data >> kSeenShift) << (tag & kExponentMask); }

  void set_counters(uint64_t updates, LastSeen seen) {
    if (updates > kMaxUpdates) updates = kMaxUpdates;
    tag = position() | seen.exponent;
    data = (data & kRowMask) | (updates << kUpdatesShift) | (seen.mantissa << kSeenShift);
  }
};

struct alignas(64) Line {
  static constexpr int kEntries = 4;
  Entry entries[kEntries];

  // Entries fill from the front, so the last one tells whether a key may have gone on to the next line.
  bool full() const { return entries[kEntries - 1].row() != 0; }

  // Where `position` is in this line, or -1. May point to an empty entry (row 0) when position is 0.
  int find(uint64_t position) const {
#if defined(__AVX2__)
    const auto* halves = reinterpret_cast<const __m256i*>(this);
    // The tags, in the order 0 2 1 3.
    __m256i tags = _mm256_unpacklo_epi64(_mm256_load_si256(halves), _mm256_load_si256(halves + 1));
    tags = _mm256_andnot_si256(_mm256_set1_epi64x(Entry::kExponentMask), tags);
    __m256i equal = _mm256_cmpeq_epi64(tags, _mm256_set1_epi64x(static_cast<long long>(position)));
    // A table, not a branch: which entry holds a key is not predictable.
    static constexpr signed char kFirst[16] = {-1, 0, 2, 0, 1, 0, 1, 0, 3, 0, 2, 0, 1, 0, 1, 0};
    return kFirst[_mm256_movemask_pd(_mm256_castsi256_pd(equal))];
#else
    for (int i = 0; i < kEntries; ++i) {
      if (entries[i].position() == position) return i;
    }
    return -1;
#endif
  }
};
static_assert(sizeof(Line) == 64);

// Lines are ordered by position and a key sits in its home line or, when that is full, in one of the next. There is no
// wrap at the end: a few spare lines take the overflow of the last ones. Thread safety: the caller's lock.
class Index {
 public:
  // Indexes that fill at the same pace should not all grow at the same time, and pause whoever uses them, and need both
  // their old and their new memory: each is given another `phase`, below kPhases. Requires: the pool outlives the
  // index.
  static constexpr uint64_t kPhases = 64;
  explicit Index(PagePool& pool, uint64_t phase = 0) : pool_(&pool), phase_(phase) {}

  // The entry of `position`, or null.
  Entry* find(uint64_t position) const {
    if (home_lines_ == 0) return nullptr;
    return find_from(home(position), position);
  }

  // The same, beginning at `line`, the key's home or a later line of its run.
  static Entry* find_from(Line* line, uint64_t position) {
    for (;; ++line) {
      int i = line->find(position);
      if (i >= 0 && line->entries[i].row() != 0) return &line->entries[i];
      if (!line->full()) return nullptr;
    }
  }

  // Adds a position that is not there. May move all entries: pointers to them are void after it. Throws
  // std::bad_alloc and then has changed nothing.
  Entry* insert(uint64_t position, uint32_t row);

  // Makes room for so many entries in so many lines, as an index had them. Requires: it is empty.
  void make_room(uint64_t home_lines, uint64_t spare_lines);
  // Adds an entry that another index had, to one with room for it; false: there is none. Requires: in the order in
  // which for_each() gives them.
  bool add(const Entry& entry);
  uint64_t spare_lines() const { return spare_lines_; }

  // Leaves the entries that keep(entry) wants, and gives back lines that fewer do not need. Pointers to entries are
  // void after it. Throws std::bad_alloc and then has changed nothing.
  template <class Keep>
  void retain(Keep keep) {
    uint64_t kept = 0;
    for_each([&](const Entry& entry) { kept += keep(entry); });
    if (kept == entries_) return;
    // As full as before: how crowded the keys are has not changed.
    const auto lines = static_cast<uint64_t>(static_cast<unsigned __int128>(home_lines_) * kept / entries_);
    move_to(std::max(kFirstLines, lines), spare_lines_, keep);
    entries_ = kept;
  }

  template <class Use>
  void for_each(Use use) const {
    for (uint64_t i = 0; i < all_lines(); ++i) {
      for (const Entry& entry : lines()[i].entries) {
        if (entry.row() == 0) break;
        use(entry);
      }
    }
  }

  static Line* home(Line* lines, uint64_t home_lines, uint64_t position) {
    return lines + static_cast<uint64_t>((static_cast<unsigned __int128>(position) * home_lines) >> 64);
  }
  Line* home(uint64_t position) const { return home(lines(), home_lines_, position); }

  // The smallest position whose home is `line` (counted from 0), for line <= home_lines().
  unsigned __int128 first_position(uint64_t line) const {
    return ((static_cast<unsigned __int128>(line) << 64) + home_lines_ - 1) / home_lines_;
  }

  Line* lines() const { return reinterpret_cast<Line*>(pages_.data()); }
  uint64_t home_lines() const { return home_lines_; }
  uint64_t all_lines() const { return home_lines_ == 0 ? 0 : home_lines_ + spare_lines_; }
  uint64_t entries() const { return entries_; }
  // How often entries changed place. Not to be told from lines(): memory that was given back may come again.
  uint64_t moves() const { return moves_; }
  size_t bytes() const { return all_lines() * sizeof(Line); }

 private:
  const Line* line_of(const Entry* entry) const {
    return lines() + static_cast<size_t>(reinterpret_cast<const std::byte*>(entry) - pages_.data()) / sizeof(Line);
  }

  static constexpr uint64_t kFirstLines = 8;
  static constexpr uint64_t kFirstSpareLines = 8;
  // With keys in any other order, one in 10^12 is so far from home.
  static constexpr ptrdiff_t kFarLines = 16;
  // A shard that comes alone fills a sixteenth of its subtable's lines.
  static constexpr uint64_t kMostLinesAnEntry = 16;

  // The first free entry on the way of `position`, or null when even the spare lines are full.
  Entry* place(uint64_t position) const;
  // Whether the entry (null: none) is so many lines from the home of `position` that the keys cannot be evenly spread,
  // and more lines would part them.
  bool is_crowded(const Entry* entry, uint64_t position) const;
  // To how many lines to grow.
  uint64_t next_lines() const;
  // Moves the entries that keep(entry) wants to so many lines, or to more spare ones if they do not fit.
  template <class Keep>
  void move_to(uint64_t home_lines, uint64_t spare_lines, Keep keep) {
    Index target(*pool_, phase_);
    target.home_lines_ = home_lines;
    target.spare_lines_ = spare_lines;
    bool fits = false;
    while (!fits) {
      target.pages_ = pool_->take(target.all_lines() * sizeof(Line));
      fits = true;
      for (uint64_t i = 0; i < all_lines() && fits; ++i) {
        for (const Entry& entry : lines()[i].entries) {
          if (entry.row() == 0) break;
          if (!keep(entry)) continue;
          Entry* place = target.place(entry.position());
          fits = place != nullptr;
          if (!fits) break;
          *place = entry;
        }
      }
      if (!fits) target.spare_lines_ *= 2;
    }
    pages_ = std::move(target.pages_);
    home_lines_ = target.home_lines_;
    spare_lines_ = target.spare_lines_;
    ++moves_;
  }
  void move_to(uint64_t home_lines, uint64_t spare_lines) {
    move_to(home_lines, spare_lines, [](const Entry&) { return true; });
  }

  PagePool* pool_;
  uint64_t phase_;
  Pages pages_;
  uint64_t home_lines_ = 0;
  uint64_t spare_lines_ = kFirstSpareLines;
  uint64_t entries_ = 0;
  uint64_t moves_ = 0;
};

}  // namespace flota
