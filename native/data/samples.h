#pragma once

#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "data/buffer.h"
#include "data/layout.h"

namespace flota {

// Samples, each a row of bytes as its layout says. One thread's own while it grows; then any thread may read it.
class Samples {
 public:
  explicit Samples(std::shared_ptr<const Layout> layout) : layout_(std::move(layout)) {}
  // The other becomes empty, as does a store that is moved.
  Samples(Samples&& other) noexcept
      : layout_(other.layout_),
        rows_(std::move(other.rows_)),
        begins_(std::exchange(other.begins_, {})),
        size_(std::exchange(other.size_, 0)) {}

  const Layout& layout() const { return *layout_; }
  const std::shared_ptr<const Layout>& shared_layout() const { return layout_; }
  size_t size() const { return size_; }
  size_t bytes() const { return rows_.size() + begins_.size() * sizeof(uint32_t); }

  std::span<const std::byte> row(size_t i) const {
    if (!layout_->has_lists()) return {rows_.data() + i * layout_->fixed_bytes(), layout_->fixed_bytes()};
    const size_t begin = size_t{begins_[i]} * 8;
    const size_t end = i + 1 < size_ ? size_t{begins_[i + 1]} * 8 : rows_.size();
    return {rows_.data() + begin, end - begin};
  }

  // Room for another row with up to `tail` bytes of lists, to be written to and then kept by close(); nothing happens
  // to a row that is opened and never closed. close() requires that the lists' lengths are written and that `tail` is
  // theirs; it throws std::length_error if the rows before take more than kMaxBytes and differ in length.
  std::byte* open(size_t tail = 0) { return rows_.reserve(layout_->fixed_bytes() + tail); }
  void close(size_t tail = 0) {
    if (layout_->has_lists()) {
      if (rows_.size() > kMaxBytes) throw std::length_error("samples with lists take more than 32 GiB in one block");
      begins_.push_back(static_cast<uint32_t>(rows_.size() / 8));
    }
    if (layout_->has_padding()) layout_->clear_padding(rows_.data() + rows_.size());
    rows_.advance(layout_->fixed_bytes() + tail);
    ++size_;
  }
  // Requires: a row of this layout.
  void append(std::span<const std::byte> row);

 private:
  static constexpr size_t kMaxBytes = size_t{UINT32_MAX} * 8;

  std::shared_ptr<const Layout> layout_;
  Buffer rows_;
  std::vector<uint32_t> begins_;  // of rows that differ in length, in eights of bytes
  size_t size_ = 0;
};

// One field of a batch.
struct Column {
  Field field;
  size_t samples = 0;
  size_t count = 0;                         // of values
  std::unique_ptr<std::byte[]> values;      // samples * width, or all values of a list
  std::unique_ptr<int64_t[]> offsets = {};  // lists: samples + 1 places, where each sample's values begin and end
};

// The rows as a batch, one column for each field.
std::vector<Column> gather(const Layout& layout, std::span<const std::byte* const> rows);

}  // namespace flota
