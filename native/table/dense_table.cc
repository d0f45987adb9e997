#include "table/dense_table.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/elements.h"

namespace flota {

DenseTable::DenseTable(const TableSpec& spec) : spec_(spec), rule_(Rule::make(spec.rule)) {
  FLOTA_CHECK(spec.kind == TableKind::kDense, "a dense table needs a dense spec");
  const Initializer initializer(spec.init, spec.seed);
  std::vector<float> values;
  for (const BlockSpec& block_spec : spec.blocks) {
    auto block = std::make_unique<Block>();
    block->weights = Pages(block_spec.length * element_bytes(spec.storage));
    block->state = Pages(block_spec.length * rule_->state_slots() * sizeof(float));
    values.resize(block_spec.length);
    initializer.fill(0, block_spec.offset, values);
    write_weights(*block, values);
    rule_->init_state({state_of(*block), block_spec.length * rule_->state_slots()}, block_spec.length);
    blocks_.push_back(std::move(block));
  }
  unwritten_ = blocks_.size();
}

int DenseTable::find_block(uint32_t id) const {
  auto found = std::lower_bound(spec_.blocks.begin(), spec_.blocks.end(), id,
                                [](const BlockSpec& block, uint32_t wanted) { return block.id < wanted; });
  if (found == spec_.blocks.end() || found->id != id) return -1;
  return static_cast<int>(found - spec_.blocks.begin());
}

void DenseTable::read_weights(const Block& block, std::span<float> out) const {
  widen(spec_.storage, block.weights.data(), out.data(), out.size());
}

void DenseTable::write_weights(Block& block, std::span<const float> values) {
  narrow(spec_.storage, values.data(), block.weights.data(), values.size());
}

void DenseTable::note_written(Block& block) {
  if (std::exchange(block.written, true)) return;
  unwritten_.fetch_sub(1, std::memory_order_release);
}

void DenseTable::pull(size_t place, std::span<float> out) const {
  const Block& block = *blocks_[place];
  FLOTA_CHECK(out.size() == spec_.blocks[place].length, "dense pull: output of another size than the block");
  std::lock_guard lock(block.mutex);
  read_weights(block, out);
}

void DenseTable::push(PushKind kind, const Step& step, size_t place, std::span<const float> values) {
  Block& block = *blocks_[place];
  FLOTA_CHECK(values.size() == spec_.blocks[place].length, "dense push: values of another size than the block");
  std::lock_guard lock(block.mutex);
  block.last_seen = step.step;
  if (kind == PushKind::kAssign) {
    write_weights(block, values);
    note_written(block);
    return;
  }
  // Float32 weights are updated where they are, others in an unpacked copy.
  thread_local std::vector<float> unpacked;
  float* weights = reinterpret_cast<float*>(block.weights.data());
  const bool packed = spec_.storage != Storage::kFloat32;
  if (packed) {
    unpacked.resize(values.size());
    weights = unpacked.data();
    read_weights(block, unpacked);
  }
  if (kind == PushKind::kGradient) {
    RowView view{weights, state_of(block), block.updates};
    rule_->update(step, values.size(), {&view, 1}, values.data());
    ++block.updates;
  } else {
    for (size_t i = 0; i < values.size(); ++i) weights[i] += step.scale * values[i];
  }
  if (packed) write_weights(block, unpacked);
  note_written(block);
}

RowPage DenseTable::export_block(size_t place) const {
  const Block& block = *blocks_[place];
  const BlockSpec& block_spec = spec_.blocks[place];
  RowPage page;
  page.done = true;
  page.keys = {block_spec.id};
  page.weights.resize(block_spec.length);
  std::lock_guard lock(block.mutex);
  read_weights(block, page.weights);
  page.state.assign(state_of(block), state_of(block) + block_spec.length * rule_->state_slots());
  page.updates = {block.updates};
  page.last_seen = {block.last_seen};
  return page;
}

void DenseTable::import_block(size_t place, const RowPage& page) {
  Block& block = *blocks_[place];
  const size_t length = spec_.blocks[place].length;
  FLOTA_CHECK(page.keys.size() == 1 && page.updates.size() == 1 && page.last_seen.size() == 1,
              "import: a block is one row");
  FLOTA_CHECK(page.weights.size() == length && page.state.size() == length * rule_->state_slots(),
              "import: a block of another size");
  std::lock_guard lock(block.mutex);
  write_weights(block, page.weights);
  std::copy(page.state.begin(), page.state.end(), state_of(block));
  block.updates = page.updates[0];
  block.last_seen = page.last_seen[0];
  note_written(block);
  imports_.fetch_add(1, std::memory_order_release);
}

DenseTable::BlockImage DenseTable::image(size_t place) const {
  const Block& block = *blocks_[place];
  const size_t length = spec_.blocks[place].length;
  return {block.updates,
          block.last_seen,
          block.written,
          {block.weights.data(), length * element_bytes(spec_.storage)},
          {block.state.data(), length * rule_->state_slots() * sizeof(float)}};
}

Result<void> DenseTable::load_image(size_t place, const BlockImage& image) {
  Block& block = *blocks_[place];
  const BlockImage own = this->image(place);
  if (image.weights.size() != own.weights.size() || image.state.size() != own.state.size()) {
    return Error{ErrorCode::kMalformed, "a block of another size than the table's"};
  }
  std::copy(image.weights.begin(), image.weights.end(), block.weights.data());
  std::copy(image.state.begin(), image.state.end(), block.state.data());
  block.updates = image.updates;
  block.last_seen = image.last_seen;
  if (image.written) note_written(block);
  return {};
}

uint64_t DenseTable::elements() const {
  uint64_t total = 0;
  for (const BlockSpec& block : spec_.blocks) total += block.length;
  return total;
}

size_t DenseTable::bytes() const {
  size_t total = sizeof(*this);
  for (const auto& block : blocks_) total += sizeof(Block) + block->weights.bytes() + block->state.bytes();
  return total;
}

}  // namespace flota
