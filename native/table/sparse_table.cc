#include "table/sparse_table.h"

#include <algorithm>
#include <vector>

#include "common/check.h"
#include "common/half.h"
#include "common/row_copy.h"

namespace flota {
namespace {

constexpr size_t kMaxGroup = 128;

size_t weight_bytes(const TableSpec& spec) {
  size_t bytes = spec.dim * (spec.storage == Storage::kFloat32 ? sizeof(float) : sizeof(uint16_t));
  return (bytes + sizeof(float) - 1) / sizeof(float) * sizeof(float);
}

// How many rows to have on their way from memory at once: as many as the first-level cache keeps.
size_t group_size(size_t touched_bytes) {
  return std::clamp<size_t>(24576 / touched_bytes, 16, kMaxGroup);
}

}  // namespace

// A few keys on their way through three passes: ask for index lines; find rows and ask for them; use them. Memory
// answers the requests of a pass while the next ones are made.
struct SparseTable::Group {
  size_t size;
  uint64_t position[kMaxGroup];
  uint8_t subtable[kMaxGroup];
  Entry* entry[kMaxGroup];
  std::byte* row[kMaxGroup];  // null: missing, and not to be made
  uint16_t late[kMaxGroup];   // keys not found in their home line
};

// Consecutive keys of one subtable within a group.
struct SparseTable::Run {
  size_t begin;
  size_t end;
  uint32_t subtable;
  uint64_t moves;  // of the subtable when the entries were found
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
  for (auto& subtable : subtables_) subtable = std::make_unique<Subtable>(row_bytes_);
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

void SparseTable::prefetch_lines(Group& group) const {
  for (size_t i = 0; i < group.size; ++i) {
    const Subtable& subtable = *subtables_[group.subtable[i]];
    Line* lines = subtable.lines_hint.load(std::memory_order_relaxed);
    uint64_t home_lines = subtable.home_lines_hint.load(std::memory_order_relaxed);
    __builtin_prefetch(Index::home(lines, home_lines, group.position[i]));
  }
}

void SparseTable::locate(Group& group, Run& run, size_t touched_bytes, Missing missing) {
  Subtable& subtable = *subtables_[run.subtable];
  std::lock_guard lock(subtable.mutex);
  size_t late = 0;
  if (subtable.index.home_lines() == 0) {
    for (size_t i = run.begin; i < run.end; ++i) group.late[late++] = static_cast<uint16_t>(i);
  } else {
    Line* lines = subtable.index.lines();
    uint64_t home_lines = subtable.index.home_lines();
    for (size_t i = run.begin; i < run.end; ++i) {
      Line* line = Index::home(lines, home_lines, group.position[i]);
      int place = line->find(group.position[i]);
      Entry* entry = &line->entries[place & (Line::kEntries - 1)];
      group.entry[i] = entry;
      group.row[i] = subtable.arena.row(entry->row());
      prefetch_bytes(group.row[i], touched_bytes);
      // No branch: whether a key overflowed its home line is not predictable.
      group.late[late] = static_cast<uint16_t>(i);
      late += static_cast<size_t>((place < 0) | (entry->row() == 0));
    }
    for (size_t k = 0; k < late; ++k) {
      __builtin_prefetch(Index::home(lines, home_lines, group.position[group.late[k]]) + 1);
    }
  }
  size_t absent = 0;
  for (size_t k = 0; k < late; ++k) {
    size_t i = group.late[k];
    Entry* entry = subtable.index.find(group.position[i]);
    group.entry[i] = entry;
    group.row[i] = nullptr;
    if (entry == nullptr) {
      group.late[absent++] = static_cast<uint16_t>(i);
      continue;
    }
    group.row[i] = subtable.arena.row(entry->row());
    prefetch_bytes(group.row[i], touched_bytes);
  }
  if (absent > 0 && missing == Missing::kCreate) {
    uint64_t moves = subtable.moves;
    for (size_t k = 0; k < absent; ++k) {
      size_t i = group.late[k];
      // A key that stands twice in the run was made a moment ago.
      Entry* entry = subtable.index.find(group.position[i]);
      group.entry[i] = entry != nullptr ? entry : create(subtable, run.subtable, group.position[i]);
      group.row[i] = subtable.arena.row(group.entry[i]->row());
    }
    if (subtable.moves != moves) {
      for (size_t i = run.begin; i < run.end; ++i) group.entry[i] = subtable.index.find(group.position[i]);
    }
  }
  run.moves = subtable.moves;
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
  Line* before = subtable.index.lines();
  Entry* entry = subtable.index.insert(position, row);
  if (subtable.index.lines() != before) {
    ++subtable.moves;
    subtable.lines_hint.store(subtable.index.lines(), std::memory_order_relaxed);
    subtable.home_lines_hint.store(subtable.index.home_lines(), std::memory_order_relaxed);
  }
  return entry;
}

template <class Visit>
void SparseTable::for_each_group(std::span<const Key> keys, size_t touched_bytes, Missing missing, Visit visit) {
  const size_t step = group_size(touched_bytes);
  Group group;
  Run runs[kMaxGroup];
  for (size_t first = 0; first < keys.size(); first += group.size) {
    group.size = std::min(step, keys.size() - first);
    for (size_t i = 0; i < group.size; ++i) {
      uint64_t hash = hash_key(keys[first + i]);
      group.position[i] = position_of_hash(hash);
      group.subtable[i] = static_cast<uint8_t>(subtable_of_hash(hash));
    }
    prefetch_lines(group);
    size_t run_count = 0;
    for (size_t i = 0; i < group.size;) {
      Run& run = runs[run_count++];
      run = {i, i + 1, group.subtable[i], 0};
      while (run.end < group.size && group.subtable[run.end] == run.subtable) ++run.end;
      locate(group, run, touched_bytes, missing);
      i = run.end;
    }
    for (size_t r = 0; r < run_count; ++r) {
      Subtable& subtable = *subtables_[runs[r].subtable];
      std::lock_guard lock(subtable.mutex);
      if (runs[r].moves != subtable.moves) {
        // Somebody made the index grow since: rows stay, entries move.
        for (size_t i = runs[r].begin; i < runs[r].end; ++i) group.entry[i] = subtable.index.find(group.position[i]);
      }
      visit(group, runs[r], first);
    }
  }
}

void SparseTable::pull(std::span<const Key> keys, std::span<float> out, Missing missing) {
  FLOTA_CHECK(out.size() == keys.size() * dim_, "pull: the output has another size than the keys ask for");
  for_each_group(keys, weight_bytes_, missing, [&](Group& group, const Run& run, size_t first) {
    for (size_t i = run.begin; i < run.end; ++i) {
      float* target = out.data() + (first + i) * dim_;
      if (group.row[i] != nullptr) {
        read_weights(group.row[i], target);
      } else {
        initializer_.fill(keys[first + i], 0, {target, dim_});
      }
    }
  });
}

void SparseTable::update_run(const Step& step, Group& group, const Run& run, const float* gradients) {
  RowView views[kMaxGroup];
  size_t count = run.end - run.begin;
  thread_local std::vector<float> unpacked;
  const bool packed = spec_.storage != Storage::kFloat32;
  if (packed) unpacked.resize(count * dim_);
  for (size_t k = 0; k < count; ++k) {
    std::byte* row = group.row[run.begin + k];
    float* weights = reinterpret_cast<float*>(row);
    if (packed) {
      weights = unpacked.data() + k * dim_;
      read_weights(row, weights);
    }
    views[k] = {weights, state_of(row), group.entry[run.begin + k]->updates()};
  }
  rule_->update(step, dim_, {views, count}, gradients);
  if (packed) {
    for (size_t k = 0; k < count; ++k) write_weights(group.row[run.begin + k], views[k].weights);
  }
}

void SparseTable::push(PushKind kind, const Step& step, std::span<const Key> keys, const float* values) {
  size_t touched = kind == PushKind::kGradient ? row_bytes_ : weight_bytes_;
  for_each_group(keys, touched, Missing::kCreate, [&](Group& group, const Run& run, size_t first) {
    const float* run_values = values + (first + run.begin) * dim_;
    if (kind == PushKind::kGradient) {
      update_run(step, group, run, run_values);
    } else {
      thread_local std::vector<float> weights;
      weights.resize(dim_);
      for (size_t i = run.begin; i < run.end; ++i) {
        const float* value = values + (first + i) * dim_;
        if (kind == PushKind::kDelta) {
          read_weights(group.row[i], weights.data());
          for (size_t j = 0; j < dim_; ++j) weights[j] += step.scale * value[j];
          value = weights.data();
        }
        write_weights(group.row[i], value);
      }
    }
    const uint64_t counted = kind == PushKind::kAssign ? 0 : 1;
    for (size_t i = run.begin; i < run.end; ++i) {
      group.entry[i]->set_counters(group.entry[i]->updates() + counted, step.step);
    }
  });
}

uint64_t SparseTable::rows() const {
  uint64_t total = 0;
  for (const auto& subtable : subtables_) {
    std::lock_guard lock(subtable->mutex);
    total += subtable->index.entries();
  }
  return total;
}

size_t SparseTable::bytes() const {
  size_t total = sizeof(*this) + sizeof(Subtable) * kSubtables;
  for (const auto& subtable : subtables_) {
    std::lock_guard lock(subtable->mutex);
    total += subtable->index.bytes() + subtable->arena.bytes();
  }
  return total;
}

}  // namespace flota
