#include "table/sparse_table.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "common/check.h"
#include "common/half.h"
#include "common/row_copy.h"

namespace flota {
namespace {

constexpr size_t kMaxRun = 128;
// Index lines of the next keys that are asked for while a run's rows are being used: as many as one core can wait for.
constexpr size_t kAhead = 24;

size_t weight_bytes(const TableSpec& spec) {
  size_t bytes = spec.dim * (spec.storage == Storage::kFloat32 ? sizeof(float) : sizeof(uint16_t));
  return (bytes + sizeof(float) - 1) / sizeof(float) * sizeof(float);
}

// How many rows to have on their way from memory at once: as many as the first-level cache keeps.
size_t run_limit(size_t touched_bytes) { return std::clamp<size_t>(24576 / touched_bytes, 16, kMaxRun); }

}  // namespace

// Consecutive keys of one subtable, on their way through three passes under its lock: fetch index lines; find rows and
// ask for them; use them. Memory serves the many requests of a pass side by side.
struct SparseTable::Run {
  size_t first;  // place of the first key in the batch
  size_t size;
  uint32_t subtable;
  std::span<const Key> ahead;  // the keys after it
  uint64_t position[kMaxRun];
  Line* line[kMaxRun];  // the keys' homes
  Entry* entry[kMaxRun];
  std::byte* row[kMaxRun];  // null: missing, and not to be made
};

SparseTable::SparseTable(const TableSpec& spec)
    : spec_(spec),
      dim_(spec.dim),
      weight_bytes_(weight_bytes(spec)),
      state_floats_(0),
      row_bytes_(0),
      rule_(Rule::make(spec.rule)),
      initializer_(spec.init, spec.seed) {
  FLOTA_CHECK(spec.kind == TableKind::kSparse, "a sparse table needs a sparse spec");
  state_floats_ = rule_->state_slots() * dim_;
  row_bytes_ = weight_bytes_ + state_floats_ * sizeof(float);
  for (auto& subtable : subtables_) subtable = std::make_unique<Subtable>(pool_, row_bytes_);
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

void SparseTable::prefetch_ahead(const Run& run) const {
  for (Key key : run.ahead) {
    const uint64_t hash = hash_key(key);
    const Subtable& subtable = *subtables_[subtable_of_hash(hash)];
    Line* lines = subtable.lines_hint.load(std::memory_order_relaxed);
    uint64_t home_lines = subtable.home_lines_hint.load(std::memory_order_relaxed);
    prefetch_to_l2(Index::home(lines, home_lines, position_of_hash(hash)), sizeof(Line));
  }
}

// Finds the run's rows and fetches them; says whether all are there. Requires: the subtable's lock.
bool SparseTable::find_rows(const Subtable& subtable, Run& run, size_t touched_bytes) const {
  if (subtable.index.entries() == 0) {
    std::fill_n(run.row, run.size, nullptr);
    return false;
  }
  for (size_t i = 0; i < run.size; ++i) {
    run.line[i] = subtable.index.home(run.position[i]);
    prefetch_to_l2(run.line[i], sizeof(Line));
  }
  bool all = true;
  constexpr size_t kWord = 64;
  for (size_t begin = 0; begin < run.size; begin += kWord) {
    const size_t end = std::min(run.size, begin + kWord);
    // Which keys were not in their home lines, as bits in a register: a list in memory would be written at places that
    // depend on data still under way, and later loads would wait for it.
    uint64_t late = 0;
    for (size_t i = begin; i < end; ++i) {
      const int place = run.line[i]->find(run.position[i]);
      Entry* entry = &run.line[i]->entries[place & (Line::kEntries - 1)];
      const uint32_t number = entry->row();
      run.entry[i] = entry;
      run.row[i] = subtable.arena.row(number);
      prefetch_to_l2(run.row[i], touched_bytes);
      late |= static_cast<uint64_t>((place < 0) | (number == 0)) << (i - begin);
    }
    for (uint64_t rest = late; rest != 0; rest &= rest - 1) {
      prefetch_to_l2(run.line[begin + static_cast<size_t>(std::countr_zero(rest))] + 1, sizeof(Line));
    }
    for (uint64_t rest = late; rest != 0; rest &= rest - 1) {
      const size_t i = begin + static_cast<size_t>(std::countr_zero(rest));
      run.entry[i] = Index::find_from(run.line[i], run.position[i]);
      run.row[i] = run.entry[i] == nullptr ? nullptr : subtable.arena.row(run.entry[i]->row());
      all &= run.row[i] != nullptr;
      if (run.row[i] != nullptr) prefetch_to_l2(run.row[i], touched_bytes);
    }
  }
  return all;
}

void SparseTable::create_missing(Subtable& subtable, Run& run) {
  const uint64_t moves = subtable.index.moves();
  for (size_t i = 0; i < run.size; ++i) {
    if (run.row[i] != nullptr) continue;
    // A key that stands twice in the run was made a moment ago.
    Entry* entry = subtable.index.find(run.position[i]);
    if (entry == nullptr) entry = create(subtable, run.subtable, run.position[i]);
    run.entry[i] = entry;
    run.row[i] = subtable.arena.row(entry->row());
  }
  if (subtable.index.moves() == moves) return;
  for (size_t i = 0; i < run.size; ++i) run.entry[i] = subtable.index.find(run.position[i]);
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
  if (state_floats_ > 0) rule_->init_state({state_of(data), state_floats_}, dim_);
  Entry* entry = subtable.index.insert(position, row);
  subtable.lines_hint.store(subtable.index.lines(), std::memory_order_relaxed);
  subtable.home_lines_hint.store(subtable.index.home_lines(), std::memory_order_relaxed);
  return entry;
}

// Cuts the batch into runs and calls visit(subtable, run) for each; the visitor locks.
template <class Visit>
void SparseTable::for_each_run(std::span<const Key> keys, size_t touched_bytes, Visit visit) {
  const size_t limit = run_limit(touched_bytes);
  Run run;
  run.size = 0;
  for (run.first = 0; run.first < keys.size(); run.first += run.size) {
    run.subtable = subtable_of_hash(hash_key(keys[run.first]));
    const size_t most = std::min(limit, keys.size() - run.first);
    for (run.size = 0; run.size < most; ++run.size) {
      const uint64_t hash = hash_key(keys[run.first + run.size]);
      if (subtable_of_hash(hash) != run.subtable) break;
      run.position[run.size] = position_of_hash(hash);
    }
    const size_t next = run.first + run.size;
    run.ahead = keys.subspan(next, std::min(kAhead, keys.size() - next));
    visit(*subtables_[run.subtable], run);
  }
}

void SparseTable::copy_out(const Run& run, std::span<const Key> keys, float* out) const {
  float* target = out + run.first * dim_;
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

void SparseTable::pull(std::span<const Key> keys, std::span<float> out, Missing missing) {
  FLOTA_CHECK(out.size() == keys.size() * dim_, "pull: the output has another size than the keys ask for");
  for_each_run(keys, weight_bytes_, [&](Subtable& subtable, Run& run) {
    {
      std::shared_lock lock(subtable.lock);
      if (find_rows(subtable, run, weight_bytes_) || missing == Missing::kInitial) {
        prefetch_ahead(run);
        copy_out(run, keys, out.data());
        return;
      }
    }
    // Some rows must be made; others may have been, meanwhile.
    std::unique_lock lock(subtable.lock);
    if (!find_rows(subtable, run, weight_bytes_)) create_missing(subtable, run);
    copy_out(run, keys, out.data());
  });
}

void SparseTable::update(const Step& step, const Run& run, const float* gradients) {
  const LastSeen seen(step.step);
  RowView views[kMaxRun];
  for (size_t i = 0; i < run.size; ++i) {
    views[i] = {reinterpret_cast<float*>(run.row[i]), state_of(run.row[i]), run.entry[i]->updates()};
    run.entry[i]->set_counters(views[i].updates + 1, seen);
  }
  if (spec_.storage == Storage::kFloat32) {
    rule_->update(step, dim_, {views, run.size}, gradients);
    return;
  }
  // One by one: a key that stands twice must find what its first gradient left.
  thread_local std::vector<float> weights;
  weights.resize(dim_);
  for (size_t i = 0; i < run.size; ++i) {
    read_weights(run.row[i], weights.data());
    views[i].weights = weights.data();
    rule_->update(step, dim_, {&views[i], 1}, gradients + i * dim_);
    write_weights(run.row[i], weights.data());
  }
}

void SparseTable::add_or_assign(PushKind kind, const Step& step, const Run& run, const float* values) {
  const LastSeen seen(step.step);
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
    run.entry[i]->set_counters(run.entry[i]->updates(), seen);
  }
}

void SparseTable::push(PushKind kind, const Step& step, std::span<const Key> keys, const float* values) {
  const bool gradient = kind == PushKind::kGradient;
  const size_t touched_bytes = gradient ? row_bytes_ : weight_bytes_;
  for_each_run(keys, touched_bytes, [&](Subtable& subtable, Run& run) {
    std::unique_lock lock(subtable.lock);
    if (!find_rows(subtable, run, touched_bytes)) create_missing(subtable, run);
    prefetch_ahead(run);
    const float* run_values = values + run.first * dim_;
    if (gradient) {
      update(step, run, run_values);
    } else {
      add_or_assign(kind, step, run, run_values);
    }
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
    total += subtable->index.bytes() + subtable->arena.bytes();
  }
  return total;
}

}  // namespace flota
