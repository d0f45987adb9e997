#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "common/initializer.h"
#include "common/push.h"
#include "common/result.h"
#include "common/spec.h"
#include "optim/rule.h"
#include "table/pages.h"
#include "table/row_page.h"

namespace flota {

// This server's blocks of one dense parameter. An element's first value depends on (seed, its place in the whole
// parameter) only, and a rule treats elements alike wherever a block begins, so a parameter is the same bit for bit
// however it is cut. Blocks are locked one by one. Thread safety: any thread.
class DenseTable {
 public:
  // Requires: spec passed validate() and is dense.
  explicit DenseTable(const TableSpec& spec);

  // The place of block `id` among this server's blocks, or -1.
  int find_block(uint32_t id) const;
  size_t block_count() const { return blocks_.size(); }
  const BlockSpec& block(size_t place) const { return spec_.blocks[place]; }

  // Requires: out or values have the block's length.
  void pull(size_t place, std::span<float> out) const;
  void push(PushKind kind, const Step& step, size_t place, std::span<const float> values);

  // A block as one row: key = its id.
  RowPage export_block(size_t place) const;
  void import_block(size_t place, const RowPage& page);

  // The same as it lies in memory, for snapshots; takes no lock. Requires: nobody changes the table meanwhile.
  struct BlockImage {
    uint64_t updates = 0;
    uint64_t last_seen = 0;
    bool written = false;
    std::span<const std::byte> weights;
    std::span<const std::byte> state;
  };
  BlockImage image(size_t place) const;
  // kMalformed: of another size than the block. Requires: before anybody else uses the table.
  Result<void> load_image(size_t place, const BlockImage& image);
  void set_imports(uint64_t count) { imports_.store(count, std::memory_order_release); }

  // Whether every block was written to since the table was made, and how often one was imported.
  bool written() const { return unwritten_.load(std::memory_order_acquire) == 0; }
  uint64_t imports() const { return imports_.load(std::memory_order_acquire); }

  // After a copy of the process was made: as in table/pages.h. Thread safety: any thread.
  bool collapse_pages(const Pages::Between& between) const {
    return std::all_of(blocks_.begin(), blocks_.end(), [&](const auto& block) {
      return block->weights.collapse(between) && block->state.collapse(between);
    });
  }

  size_t state_slots() const { return rule_->state_slots(); }
  uint64_t elements() const;
  size_t bytes() const;
  const TableSpec& spec() const { return spec_; }

 private:
  struct Block {
    mutable std::mutex mutex;
    Pages weights;
    Pages state;
    uint64_t updates = 0;
    uint64_t last_seen = 0;
    bool written = false;
  };

  // Requires: the block's lock is held, and what was written is there.
  void note_written(Block& block);
  void read_weights(const Block& block, std::span<float> out) const;
  void write_weights(Block& block, std::span<const float> values);
  float* state_of(const Block& block) const { return reinterpret_cast<float*>(block.state.data()); }

  TableSpec spec_;
  std::unique_ptr<const Rule> rule_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::atomic<size_t> unwritten_{0};  // blocks
  std::atomic<uint64_t> imports_{0};
};

}  // namespace flota
