#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "table/pages.h"

namespace flota {

// Rows of one size, numbered, that never move: a pointer to a row stays good for the arena's life. Row numbers count in
// segments of a power of two, so that finding a row is a shift, a mask and a product. The first segments are smaller
// than their numbers would allow, and those numbers are left out: a small table stays small. Thread safety: the
// caller's lock.
class Arena {
 public:
  static constexpr uint32_t kNumbers = 1u << 26;

  // Arenas that fill at the same pace should not all need a new segment at the same time: each is given another
  // `phase`, below kPhases. Requires: the pool outlives the arena.
  static constexpr uint32_t kPhases = 64;
  Arena(PagePool& pool, size_t row_bytes, uint32_t phase = 0)
      : pool_(pool), row_bytes_(row_bytes), phase_(phase), width_(width_for(kSegmentBytes)) {}

  // The number, above 0, of a new, zeroed row. Throws std::bad_alloc, or std::length_error when none is left.
  uint32_t add() {
    if (!removed_.empty()) [[unlikely]] {
      const uint32_t number = removed_.back();
      removed_.pop_back();
      std::memset(row(number), 0, row_bytes_);
      ++rows_;
      return number;
    }
    if (next_ == end_) open_segment();
    ++rows_;
    return next_++;
  }

  // A row that is no longer used: a later one takes its place. Requires: add() gave it.
  void remove(uint32_t number) {
    removed_.push_back(number);
    --rows_;
  }

  // Any row that add() gave. 0, "no row", may be asked for once there is a row: the pointer must not be read but may be
  // prefetched, so that lookups need no branch for it.
  std::byte* row(uint32_t number) const {
    return segments_[number >> width_] + size_t{number & ((1u << width_) - 1)} * row_bytes_;
  }

  uint32_t rows() const { return rows_; }
  // Removed ones included: they are kept for new ones.
  size_t bytes() const { return (size_t{rows_} + removed_.size()) * row_bytes_; }

 private:
  static constexpr size_t kFirstBytes = 4096;
  static constexpr size_t kSegmentBytes = size_t{256} << 10;
  static constexpr size_t kLine = 64;
  static constexpr uint32_t kStaggers = 4;

  uint32_t width_for(size_t bytes) const {
    return static_cast<uint32_t>(std::bit_width(std::max<size_t>(bytes / row_bytes_, 8))) - 1;
  }

  void open_segment() {
    const auto number = static_cast<uint32_t>(segments_.size());
    if (number >= kNumbers >> width_) throw std::length_error("a table part is full; use more servers");
    const uint32_t width = std::min(width_for(kFirstBytes) + number, width_);
    uint32_t rows = 1u << width;
    // Out of step once, by a part of the first large segment, and then for ever.
    if (width_for(kFirstBytes) + number == width_) rows -= rows / kPhases * phase_;
    // Processors spread memory over their channels by address bits, the lowest of which tells odd cache lines from even
    // ones. Were all rows to begin at even lines, reading their beginnings would use half of the channels.
    const size_t stagger = row_bytes_ % (2 * kLine) == 0 ? number % kStaggers * kLine : 0;
    pages_.push_back(pool_.take(size_t{rows} * row_bytes_ + stagger));
    segments_.push_back(pages_.back().data() + stagger);
    next_ = number << width_;
    end_ = next_ + rows;
    if (next_ == 0) ++next_;
  }

  PagePool& pool_;
  size_t row_bytes_;
  uint32_t phase_;
  uint32_t width_;  // of a segment's numbers, in bits
  uint32_t rows_ = 0;
  uint32_t next_ = 0;
  uint32_t end_ = 0;
  std::vector<std::byte*> segments_;
  std::vector<Pages> pages_;
  std::vector<uint32_t> removed_;
};

}  // namespace flota
