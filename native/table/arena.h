#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "table/pages.h"

namespace flota {

// Rows of one size, numbered from 1, that never move: a pointer to a row stays good for the arena's life. Segment k
// holds 2^k times the rows of the first, so a small table stays small and a large one needs few segments.
// Thread safety: the caller's lock.
class Arena {
 public:
  static constexpr uint32_t kFirstSegmentRows = 64;
  static constexpr uint32_t kMaxRows = (1u << 26) - kFirstSegmentRows - 1;

  explicit Arena(size_t row_bytes) : row_bytes_(row_bytes) {}

  // The number of a new, zeroed row. Throws std::bad_alloc, or std::length_error when all numbers are taken.
  uint32_t add() {
    if (rows_ == kMaxRows) throw std::length_error("a table part is full: 67 million rows; use more servers");
    uint32_t number = rows_ + 1;
    Pages& segment = segments_[segment_of(number)];
    if (segment.data() == nullptr) segment = Pages((size_t{kFirstSegmentRows} << segment_of(number)) * row_bytes_);
    rows_ = number;
    return number;
  }

  // Any number may be asked for: 0, "no row", gives a pointer that must not be read but may be prefetched, so that
  // lookups need no branch for it.
  std::byte* row(uint32_t number) const {
    uint32_t place = number + kFirstSegmentRows;
    uint32_t width = static_cast<uint32_t>(std::bit_width(place)) - 1;
    uint32_t slot = place - (1u << width);
    return segments_[width - kFirstWidth].data() + size_t{slot} * row_bytes_;
  }

  uint32_t rows() const { return rows_; }
  size_t bytes() const { return size_t{rows_} * row_bytes_; }

 private:
  static constexpr uint32_t kFirstWidth = 6;
  static_assert(kFirstSegmentRows == 1u << kFirstWidth);

  static uint32_t segment_of(uint32_t number) {
    return static_cast<uint32_t>(std::bit_width(number + kFirstSegmentRows)) - 1 - kFirstWidth;
  }

  size_t row_bytes_;
  uint32_t rows_ = 0;
  std::array<Pages, 21> segments_;
};

}  // namespace flota
