#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <vector>

#include "common/hash.h"
#include "common/initializer.h"
#include "common/push.h"
#include "common/read_write_lock.h"
#include "common/result.h"
#include "common/shrink.h"
#include "common/spec.h"
#include "optim/rule.h"
#include "table/arena.h"
#include "table/index.h"
#include "table/row_page.h"
#include "table/waiting_keys.h"

namespace flota {

// What a pull does with a key that has no row yet. Where keys are admitted by what is seen of them, it gives zeros and
// makes nothing either way.
enum class Missing : uint8_t {
  kCreate = 1,   // makes the row
  kInitial = 2,  // gives the values the row would begin with, and makes nothing
};

// Rows of `dim` weights with their rule's state, for any 64-bit key, made on demand.
//
// A row's first value depends on (seed, key) only. A row changes whole: weights, state and counters under the lock of
// its subtable, of which there are 64, each for many readers or one writer, so callers work side by side. Keys may come
// in any order; in ascending order of subtable_of_hash(hash_key(key)) a batch takes each lock a few times only, and
// that is several times faster.
class SparseTable {
 public:
  // Requires: spec passed validate() and is sparse.
  explicit SparseTable(const TableSpec& spec);

  // Copies each key's row into `out`; `made` is told the keys of the rows that it made. Thread safety: any thread.
  // Requires: out.size() == keys.size() * dim().
  void pull(std::span<const Key> keys, std::span<float> out, Missing missing, std::vector<Key>* made = nullptr);

  // Applies `values` (keys.size() * dim() floats) to the keys' rows, making those that are missing; gradients make
  // those that are admitted, and say by `shown` what was seen of them. A key that stands twice is updated twice. Thread
  // safety: any thread.
  void push(PushKind kind, const Step& step, std::span<const Key> keys, const float* values, const Shown& shown = {});

  // The keys that have no row. Thread safety: any thread.
  std::vector<Key> missing(std::span<const Key> keys);

  // Whole rows of one virtual shard in the index's order, at most about `max_rows`, from `cursor` (0: the beginning)
  // on; those that were not seen since an era are left out. Every row that is there from the first page to the last
  // comes exactly once, also when the table grows in between.
  RowPage export_shard(uint32_t shard, uint64_t cursor, size_t max_rows, uint64_t since = 0) const;
  // The same of keys that have no row yet: `weights` has their shows and clicks.
  RowPage export_waiting(uint32_t shard, uint64_t cursor, size_t max_rows) const;
  // The same of keys whose rows were removed since an era, as far as it was told to keep them.
  RowPage export_removed(uint32_t shard, uint64_t cursor, size_t max_rows, uint64_t since) const;

  // Makes or overwrites whole rows. Requires: columns of the right sizes.
  void import_rows(const RowPage& page);
  void import_waiting(const RowPage& page);
  void remove_rows(std::span<const Key> keys);

  // Eras: whatever is done to a row from here on shows in its last_seen, which is `era` or later.
  void begin_era(uint64_t era);
  uint64_t era() const;
  // The latest step that any push has brought.
  uint64_t newest_step() const { return newest_step_.load(std::memory_order_relaxed); }
  // Remembers rows that are removed from here on, and those that were since an era.
  void keep_removed(uint64_t since);
  // From which era on it knows of all of them.
  uint64_t removed_since() const;

  // Removes rows; returns how many.
  uint64_t shrink(const ShrinkSpec& spec);

  // The whole table as pages of bytes, each row and each counter as it lies in memory: what snapshots hold. Takes no
  // lock. Requires: nobody changes the table meanwhile.
  Result<void> save_image(const std::function<Result<void>(std::span<const std::byte>)>& write) const;
  // Puts a page of a table of the same spec in its place. kMalformed: it is no such page; memory is taken for at most
  // `most_bytes` of rows. Thread safety: pages of one image_part() one after another. Requires: the table was empty,
  // and the pages come in their order.
  Result<void> load_image(std::span<const std::byte> page, uint64_t most_bytes);
  // Which part of the table a page is of, below kSubtables.
  static Result<uint32_t> image_part(std::span<const std::byte> page);

  // After a copy of the process was made: as in table/pages.h. Thread safety: any thread.
  bool collapse_pages(const Pages::Between& between) {
    return index_pool_.collapse(between) && row_pool_.collapse(between);
  }

  uint32_t dim() const { return dim_; }
  size_t state_floats() const { return state_floats_; }
  uint64_t rows() const;
  uint64_t waiting() const;    // keys that are counted and have no row yet
  uint64_t forgotten() const;  // of those, how many were forgotten for want of room
  size_t bytes() const;        // memory of rows, index and waiting keys
  const TableSpec& spec() const { return spec_; }

 private:
  struct Run;

  struct Removed {
    uint64_t position;
    uint64_t era;
  };
  struct alignas(64) Subtable {
    Subtable(PagePool& index_pool, PagePool& row_pool, uint32_t number, size_t row_bytes, uint64_t most_waiting)
        : index(index_pool, number),
          arena(row_pool, row_bytes, number),
          waiting(most_waiting == 0 ? nullptr : std::make_unique<WaitingKeys>(most_waiting)) {}
    // Where the index is now, for prefetching without the lock; a stale answer costs time only.
    std::atomic<Line*> lines_hint{nullptr};
    std::atomic<uint64_t> home_lines_hint{0};
    mutable ReadWriteLock lock;
    Index index;
    Arena arena;
    uint64_t era = 0;
    uint64_t rescored = 0;  // the era in which all rows' scores last changed
    bool keeps_removed = false;
    uint64_t removed_since = 0;            // `removed` has all rows that went since this era
    std::unique_ptr<WaitingKeys> waiting;  // null: none are counted
    std::vector<Removed> removed;
  };
  // A virtual shard as one stretch of a subtable's positions.
  struct Stretch {
    uint32_t subtable;
    uint64_t begin;
    unsigned __int128 end;
  };

  // Of the keys of a batch.
  struct Part {
    size_t begin;
    size_t end;
  };
  using Reading = std::shared_lock<ReadWriteLock>;
  using Writing = std::unique_lock<ReadWriteLock>;

  template <class Lock, class Make, class Use>
  void for_each_run_of(Part part, std::span<const Key> keys, size_t touched_bytes, Make make, Use use,
                       std::vector<Part>* put_off);
  template <class Lock, class Make, class Use>
  void for_each_run(std::span<const Key> keys, size_t touched_bytes, Make make, Use use);
  void copy_out(const Run& run, std::span<const Key> keys, float* out) const;
  void begin_run(std::span<const Key> keys, size_t first, size_t limit, Run& run) const;
  void find_rows(const Subtable& subtable, Run& run, size_t touched_bytes) const;
  void find_late_rows(const Subtable& subtable, Run& run, size_t touched_bytes) const;
  void create_missing(Subtable& subtable, Run& run, std::vector<Key>* made = nullptr);
  Entry* create(Subtable& subtable, uint32_t number, uint64_t position);
  bool admit_missing(Subtable& subtable, Run& run, uint64_t seen, const Shown& shown);
  bool admits(Subtable& subtable, uint32_t number, uint64_t position, WaitingKeys::Tally& tally, uint64_t draw) const;
  static void refind(const Subtable& subtable, Run& run);
  void update(const Step& step, uint64_t seen, const Run& run, const float* gradients);
  void update_stretch(const Step& step, LastSeen seen, const Run& run, size_t begin, size_t end,
                      const float* gradients);
  void count_shown(const Run& run, const Shown& shown) const;
  void add_or_assign(PushKind kind, const Step& step, uint64_t seen, const Run& run, const float* values);
  void read_weights(const std::byte* row, float* out) const;
  void write_weights(std::byte* row, const float* values) const;
  float* state_of(std::byte* row) const { return reinterpret_cast<float*>(row + weight_bytes_); }
  float* score_of(std::byte* row) const { return state_of(row) + rule_floats_; }
  double norm_of(const std::byte* row) const;
  bool stays(const ShrinkSpec& spec, const Subtable& subtable, const Entry& entry) const;
  template <class Keep>
  uint64_t remove_all_but(Subtable& subtable, Keep keep);
  static Stretch stretch_of(uint32_t shard);
  Result<void> load_head(Subtable& subtable, std::span<const std::byte> bytes, uint64_t most_bytes);
  Result<void> load_rows(Subtable& subtable, std::span<const std::byte> bytes);
  RowPage page_of_entries(const Subtable& subtable, uint32_t number, uint64_t cursor, unsigned __int128 end,
                          size_t max_rows, uint64_t since) const;

  TableSpec spec_;
  uint32_t dim_;
  size_t weight_bytes_;  // of a row, up to its state
  size_t rule_floats_;   // of its state, up to its score
  size_t state_floats_;
  size_t row_bytes_;
  std::unique_ptr<const Rule> rule_;
  Initializer initializer_;
  std::atomic<uint64_t> newest_step_{0};
  PagePool index_pool_;  // apart from the rows: what an index gives back lies side by side and can be given on whole
  PagePool row_pool_;
  std::array<std::unique_ptr<Subtable>, kSubtables> subtables_;
};

}  // namespace flota
