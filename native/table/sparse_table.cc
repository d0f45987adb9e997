#include <algorithm>
#include <bit>
#include <mutex>
#include <type_traits>
#include <vector>

#include "common/check.h"
#include "common/half.h"
#include "common/row_copy.h"
#include "table/sparse_run.h"

namespace flota {
namespace {

// How many runs are on their way between the stages of for_each_run. More of them keep more rows in the cache than it
// holds, fewer let memory idle.
constexpr size_t kLinesAhead = 3;
constexpr size_t kRowsAhead = 3;
constexpr size_t kLateAhead = 2;
constexpr size_t kRing = 8;
static_assert(kLinesAhead + kRowsAhead <= kRing && kLateAhead <= kRowsAhead);

size_t weight_bytes(const TableSpec& spec) {
  size_t bytes = spec.dim * (spec.storage == Storage::kFloat32 ? sizeof(float) : sizeof(uint16_t));
  return (bytes + sizeof(float) - 1) / sizeof(float) * sizeof(float);
}

// Keys of one run: as many rows as a share of the second-level cache keeps.
size_t run_limit(size_t touched_bytes) { return std::clamp<size_t>(131072 / touched_bytes, 4, kMaxRun); }

}  // namespace

SparseTable::SparseTable(const TableSpec& spec)
    : spec_(spec),
      dim_(spec.dim),
      weight_bytes_(weight_bytes(spec)),
      rule_floats_(0),
      state_floats_(0),
      row_bytes_(0),
      rule_(Rule::make(spec.rule)),
      initializer_(spec.init, spec.seed) {
  FLOTA_CHECK(spec.kind == TableKind::kSparse, "a sparse table needs a sparse spec");
  rule_floats_ = rule_->state_slots() * dim_;
  state_floats_ = rule_floats_ + (spec.admission.keeps_scores() ? kScoreFloats : 0);
  row_bytes_ = weight_bytes_ + state_floats_ * sizeof(float);
  const uint64_t most_waiting = spec.admission.waiting / kShards;
  for (uint32_t i = 0; i < kSubtables; ++i)
    subtables_[i] = std::make_unique<Subtable>(index_pool_, row_pool_, i, row_bytes_, most_waiting);
}

void SparseTable::read_weights(const std::byte* row, float* out) const {
  switch (spec_.storage) {
    case Storage::kFloat32:
      copy_floats(out, reinterpret_cast<const float*>(row), dim_);
      return;
    case Storage::kFloat16:
      float16_to_float32(reinterpret_cast<const uint16_t*>(row), out, dim_);
      return;
    case Storage::kBFloat16:
      bfloat16_to_float32(reinterpret_cast<const uint16_t*>(row), out, dim_);
      return;
  }
}

void SparseTable::write_weights(std::byte* row, const float* values) const {
  switch (spec_.storage) {
    case Storage::kFloat32:
      copy_floats(reinterpret_cast<float*>(row), values, dim_);
      return;
    case Storage::kFloat16:
      float32_to_float16(values, reinterpret_cast<uint16_t*>(row), dim_);
      return;
    case Storage::kBFloat16:
      float32_to_bfloat16(values, reinterpret_cast<uint16_t*>(row), dim_);
      return;
  }
}

// The run of at most `limit` keys that begins at `first`, its index lines asked for. Without the lock: where the lines
// are may change meanwhile, which costs time only.
void SparseTable::begin_run(std::span<const Key> keys, size_t first, size_t limit, Run& run) const {
  run.first = first;
  run.subtable = subtable_of_hash(hash_key(keys[first]));
  const Subtable& subtable = *subtables_[run.subtable];
  Line* const lines = subtable.lines_hint.load(std::memory_order_relaxed);
  const uint64_t home_lines = subtable.home_lines_hint.load(std::memory_order_relaxed);
  const size_t most = std::min(limit, keys.size() - first);
  for (run.size = 0; run.size < most; ++run.size) {
    const uint64_t hash = hash_key(keys[first + run.size]);
    if (subtable_of_hash(hash) != run.subtable) break;
    run.position[run.size] = position_of_hash(hash);
    prefetch_to_l2(Index::home(lines, home_lines, run.position[run.size]), sizeof(Line));
  }
}

// Finds the rows of the keys that are in their home lines, and asks for them; for the others, asks for the next line.
// Requires: the subtable's lock.
void SparseTable::find_rows(const Subtable& subtable, Run& run, size_t touched_bytes) const {
  if (subtable.index.entries() == 0) {
    std::fill_n(run.row, run.size, nullptr);
    run.late = 0;
    run.whole = false;
    return;
  }
  // Bits in a register: a list in memory would be written at places that depend on data still under way, and later
  // loads would wait for it.
  uint32_t late = 0;
  for (size_t i = 0; i < run.size; ++i) {
    Line* line = subtable.index.home(run.position[i]);
    const int place = line->find(run.position[i]);
    Entry* entry = &line->entries[place & (Line::kEntries - 1)];
    const uint32_t number = entry->row();
    run.entry[i] = entry;
    run.row[i] = subtable.arena.row(number);
    prefetch_to_l2(run.row[i], touched_bytes);
    late |= static_cast<uint32_t>((place < 0) | (number == 0)) << i;
  }
  run.late = late;
  run.whole = true;
  for (; late != 0; late &= late - 1) {
    prefetch_to_l2(subtable.index.home(run.position[std::countr_zero(late)]) + 1, sizeof(Line));
  }
}

// Finds the rows that find_rows did not, and asks for them. Requires: the lock held since find_rows.
void SparseTable::find_late_rows(const Subtable& subtable, Run& run, size_t touched_bytes) const {
  for (; run.late != 0; run.late &= run.late - 1) {
    const int i = std::countr_zero(run.late);
    run.entry[i] = subtable.index.find(run.position[i]);
    if (run.entry[i] == nullptr) {
      run.row[i] = nullptr;
      run.whole = false;
    } else {
      run.row[i] = subtable.arena.row(run.entry[i]->row());
      prefetch_to_l2(run.row[i], touched_bytes);
    }
  }
}

void SparseTable::create_missing(Subtable& subtable, Run& run, std::vector<Key>* made) {
  const uint64_t moves = subtable.index.moves();
  for (size_t i = 0; i < run.size; ++i) {
    if (run.row[i] != nullptr) continue;
    // A key that stands twice in the run was made a moment ago.
    Entry* entry = subtable.index.find(run.position[i]);
    if (entry == nullptr) {
      entry = create(subtable, run.subtable, run.position[i]);
      if (made != nullptr) made->push_back(unhash_key(hash_of_position(run.subtable, run.position[i])));
    }
    run.entry[i] = entry;
    run.row[i] = subtable.arena.row(entry->row());
  }
  if (subtable.index.moves() != moves) refind(subtable, run);
}

// After entries have changed their places, or the lock was given back: finds all of the run's rows anew.
void SparseTable::refind(const Subtable& subtable, Run& run) {
  for (size_t i = 0; i < run.size; ++i) {
    run.entry[i] = subtable.index.find(run.position[i]);
    run.row[i] = run.entry[i] == nullptr ? nullptr : subtable.arena.row(run.entry[i]->row());
  }
}

Entry* SparseTable::create(Subtable& subtable, uint32_t number, uint64_t position) {
  uint32_t row = subtable.arena.add();
  std::byte* data = subtable.arena.row(row);
  Key key = unhash_key(hash_of_position(number, position));
  if (spec_.storage == Storage::kFloat32) {
    initializer_.fill(key, 0, {reinterpret_cast<float*>(data), dim_});
  } else {
    thread_local std::vector<float> weights;
    weights.resize(dim_);
    initializer_.fill(key, 0, weights);
    write_weights(data, weights.data());
  }
  if (rule_floats_ > 0) rule_->init_state({state_of(data), rule_floats_}, dim_);
  Entry* entry = subtable.index.insert(position, row);
  entry->set_counters(0, LastSeen(subtable.era));
  if (subtable.waiting) subtable.waiting->remove(position);
  subtable.lines_hint.store(subtable.index.lines(), std::memory_order_relaxed);
  subtable.home_lines_hint.store(subtable.index.home_lines(), std::memory_order_relaxed);
  return entry;
}

// Cuts a part of the batch into runs and brings each through four stages: its index lines are asked for; its rows are
// found and asked for; those that were not in their home lines likewise; use(run), in the order of the keys. Between
// two stages of one run come other stages of other runs, so that what was asked for arrives meanwhile. All but the
// first stage happen under the subtable's lock. Before the use of a run whose rows are not all there, make(subtable,
// run, lock) is called and says whether the index may have changed. With `put_off`, keys whose subtable somebody else
// holds are left for later, and noted there.
template <class Lock, class Make, class Use>
void SparseTable::for_each_run_of(Part part, std::span<const Key> keys, size_t touched_bytes, Make make, Use use,
                                  std::vector<Part>* put_off) {
  const size_t limit = run_limit(touched_bytes);
  Run ring[kRing];
  auto run = [&](size_t number) -> Run& { return ring[number % kRing]; };
  size_t next_key = part.begin;
  size_t asked = 0;  // runs that are through a stage
  size_t found = 0;
  size_t late = 0;
  size_t used = 0;
  auto ask = [&] {
    while (asked < found + kLinesAhead && next_key < part.end) {
      begin_run(keys.first(part.end), next_key, limit, run(asked));
      next_key += run(asked++).size;
    }
  };
  auto leave = [&](uint32_t subtable) {
    Part left{run(used).first, 0};
    while (used < asked && run(used).subtable == subtable) {
      left.end = run(used).first + run(used).size;
      found = late = ++used;
      ask();
    }
    put_off->push_back(left);
  };
  for (ask(); used < asked;) {
    const uint32_t number = run(used).subtable;
    Subtable& subtable = *subtables_[number];
    Lock lock(subtable.lock, std::defer_lock);
    if constexpr (std::is_same_v<Lock, Reading>) {
      if (put_off != nullptr && !lock.try_lock()) {
        leave(number);
        continue;
      }
    }
    if (!lock.owns_lock()) lock.lock();
    for (size_t rows_ahead = kRowsAhead; used < asked && run(used).subtable == number;) {
      while (found < asked && found < used + rows_ahead && run(found).subtable == number) {
        find_rows(subtable, run(found++), touched_bytes);
        ask();
      }
      while (late < found && late < used + kLateAhead) find_late_rows(subtable, run(late++), touched_bytes);
      if (!run(used).whole && make(subtable, run(used), lock)) [[unlikely]] {
        // What was found ahead must be found again. More is likely to be missing: look no further ahead than needed.
        found = late = used + 1;
        rows_ahead = 1;
      }
      use(run(used++));
    }
  }
}

// Pushes go through subtables in the same order; a pull that waited for one would stay behind it to the end, and the
// kernel may take a hundred times as long over a push as usual (it copies each page that a snapshot shares). So a pull
// goes on and comes back. A push does not: a key that stands twice must get its gradients in their order.
template <class Lock, class Make, class Use>
void SparseTable::for_each_run(std::span<const Key> keys, size_t touched_bytes, Make make, Use use) {
  const Part all{0, keys.size()};
  if constexpr (std::is_same_v<Lock, Reading>) {
    std::vector<Part> put_off;
    for_each_run_of<Lock>(all, keys, touched_bytes, make, use, &put_off);
    for (const Part& part : put_off) for_each_run_of<Lock>(part, keys, touched_bytes, make, use, nullptr);
  } else {
    for_each_run_of<Lock>(all, keys, touched_bytes, make, use, nullptr);
  }
}

void SparseTable::copy_out(const Run& run, std::span<const Key> keys, float* out) const {
  float* target = out + run.first * dim_;
  if (!run.whole && !spec_.admission.admits_all()) {
    for (size_t i = 0; i < run.size; ++i) {
      if (run.row[i] == nullptr) {
        std::fill_n(target + i * dim_, dim_, 0.0f);
      } else {
        read_weights(run.row[i], target + i * dim_);
      }
    }
    return;
  }
  if (spec_.storage == Storage::kFloat32) {
    const size_t dim = dim_;
    for (size_t i = 0; i < run.size; ++i) {
      if (run.row[i] == nullptr) [[unlikely]] {
        initializer_.fill(keys[run.first + i], 0, {target + i * dim, dim});
      } else {
        copy_floats(target + i * dim, reinterpret_cast<const float*>(run.row[i]), dim);
      }
    }
    return;
  }
  thread_local std::vector<std::byte> stored;
  stored.resize(weight_bytes_);
  for (size_t i = 0; i < run.size; ++i) {
    float* values = target + i * dim_;
    const std::byte* row = run.row[i];
    if (row == nullptr) {
      // As the row would hold them: rounded to its storage.
      initializer_.fill(keys[run.first + i], 0, {values, dim_});
      write_weights(stored.data(), values);
      row = stored.data();
    }
    read_weights(row, values);
  }
}

void SparseTable::pull(std::span<const Key> keys, std::span<float> out, Missing missing, std::vector<Key>* made) {
  FLOTA_CHECK(out.size() == keys.size() * dim_, "pull: the output has another size than the keys ask for");
  auto make = [&](Subtable& subtable, Run& run, Reading& lock) {
    if (missing == Missing::kInitial || !spec_.admission.admits_all()) return false;
    lock.unlock();
    {
      std::lock_guard writing(subtable.lock);
      // While nobody held the lock, rows may have gone, and others have taken their places.
      std::fill_n(run.row, run.size, nullptr);
      create_missing(subtable, run, made);
    }
    lock.lock();
    refind(subtable, run);
    return true;
  };
  for_each_run<Reading>(keys, weight_bytes_, make, [&](const Run& run) { copy_out(run, keys, out.data()); });
}

std::vector<Key> SparseTable::missing(std::span<const Key> keys) {
  std::vector<Key> found;
  auto make = [](const Subtable&, const Run&, const auto& /*lock*/) { return false; };
  for_each_run<Reading>(keys, weight_bytes_, make, [&](const Run& run) {
    if (run.whole) return;
    for (size_t i = 0; i < run.size; ++i) {
      if (run.row[i] == nullptr) found.push_back(keys[run.first + i]);
    }
  });
  return found;
}

void SparseTable::update(const Step& step, uint64_t seen, const Run& run, const float* gradients) {
  if (run.whole) {
    update_stretch(step, LastSeen(seen), run, 0, run.size, gradients);
    return;
  }
  for (size_t begin = 0, end = 0; begin < run.size; begin = end + 1) {
    for (end = begin; end < run.size && run.row[end] != nullptr; ++end) {
    }
    if (begin < end) update_stretch(step, LastSeen(seen), run, begin, end, gradients);
  }
}

// Requires: the rows from `begin` to before `end` are there.
void SparseTable::update_stretch(const Step& step, LastSeen seen, const Run& run, size_t begin, size_t end,
                                 const float* gradients) {
  RowView views[kMaxRun];
  for (size_t i = begin; i < end; ++i) {
    views[i] = {reinterpret_cast<float*>(run.row[i]), state_of(run.row[i]), run.entry[i]->updates()};
    run.entry[i]->set_counters(views[i].updates + 1, seen);
  }
  if (spec_.storage == Storage::kFloat32) {
    rule_->update(step, dim_, {views + begin, end - begin}, gradients + begin * dim_);
    return;
  }
  // One by one: a key that stands twice must find what its first gradient left.
  thread_local std::vector<float> weights;
  weights.resize(dim_);
  for (size_t i = begin; i < end; ++i) {
    read_weights(run.row[i], weights.data());
    views[i].weights = weights.data();
    rule_->update(step, dim_, {&views[i], 1}, gradients + i * dim_);
    write_weights(run.row[i], weights.data());
  }
}

void SparseTable::add_or_assign(PushKind kind, const Step& step, uint64_t seen, const Run& run, const float* values) {
  thread_local std::vector<float> weights;
  weights.resize(dim_);
  for (size_t i = 0; i < run.size; ++i) {
    const float* value = values + i * dim_;
    if (kind == PushKind::kDelta) {
      read_weights(run.row[i], weights.data());
      for (size_t j = 0; j < dim_; ++j) weights[j] += step.scale * value[j];
      value = weights.data();
    }
    write_weights(run.row[i], value);
    run.entry[i]->set_counters(run.entry[i]->updates(), LastSeen(seen));
  }
}

void SparseTable::push(PushKind kind, const Step& step, std::span<const Key> keys, const float* values,
                       const Shown& shown) {
  const bool gradient = kind == PushKind::kGradient;
  const size_t touched_bytes = gradient ? row_bytes_ : weight_bytes_;
  const bool admits = gradient && !spec_.admission.admits_all();
  const bool scores = gradient && spec_.admission.keeps_scores();
  uint64_t newest = newest_step_.load(std::memory_order_relaxed);
  while (newest < step.step && !newest_step_.compare_exchange_weak(newest, step.step, std::memory_order_relaxed)) {
  }
  auto make = [&](Subtable& subtable, Run& run, const auto& /*lock*/) {
    if (admits) return admit_missing(subtable, run, std::max(step.step, subtable.era), shown);
    create_missing(subtable, run);
    return true;
  };
  for_each_run<Writing>(keys, touched_bytes, make, [&](const Run& run) {
    const float* run_values = values + run.first * dim_;
    const uint64_t seen = std::max(step.step, subtables_[run.subtable]->era);
    if (!gradient) {
      add_or_assign(kind, step, seen, run, run_values);
      return;
    }
    if (scores) count_shown(run, shown);
    update(step, seen, run, run_values);
  });
}

uint64_t SparseTable::rows() const {
  uint64_t total = 0;
  for (const auto& subtable : subtables_) {
    std::shared_lock lock(subtable->lock);
    total += subtable->index.entries();
  }
  return total;
}

size_t SparseTable::bytes() const {
  size_t total = sizeof(*this) + sizeof(Subtable) * kSubtables;
  for (const auto& subtable : subtables_) {
    std::shared_lock lock(subtable->lock);
    total += subtable->index.bytes() + subtable->arena.bytes() + (subtable->waiting ? subtable->waiting->bytes() : 0);
  }
  return total;
}

}  // namespace flota
