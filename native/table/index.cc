#include "table/index.h"

#include <utility>

#include "common/check.h"

namespace flota {

Entry* Index::insert(uint64_t position, uint32_t row) {
  // At most 58% full, at most one key in sixteen is not in its home line; fuller, lookups pay for a second line too
  // often, and emptier, memory does.
  if (entries_ * 100 >= home_lines_ * Line::kEntries * 58) grow();
  Entry* entry = place(position);
  while (entry == nullptr) {
    grow();
    entry = place(position);
  }
  *entry = Entry{position, row};
  ++entries_;
  return entry;
}

Entry* Index::place(uint64_t position) const {
  Line* end = lines() + all_lines();
  // The very last line is never filled, so that a search always ends at a line that is not full.
  for (Line* line = home(position); line + 1 < end; ++line) {
    if (line->full()) continue;
    for (Entry& entry : line->entries) {
      if (entry.row() == 0) return &entry;
    }
  }
  return nullptr;
}

void Index::grow() {
  // By a quarter: homes keep their order when the number of lines changes, so moving is one pass over both in
  // sequence, cheap enough to do often, and memory stays close to what is used.
  Index larger(*pool_);
  larger.home_lines_ = home_lines_ == 0 ? kFirstLines : home_lines_ + home_lines_ / 4 + 1;
  for (;;) {
    larger.pages_ = pool_->take(larger.all_lines() * sizeof(Line));
    bool all_placed = true;
    for (uint64_t i = 0; i < all_lines() && all_placed; ++i) {
      for (const Entry& entry : lines()[i].entries) {
        if (entry.row() == 0) break;
        Entry* target = larger.place(entry.position());
        if (target == nullptr) {
          all_placed = false;
          break;
        }
        *target = entry;
      }
    }
    if (all_placed) break;
    larger.home_lines_ += larger.home_lines_ / 4 + 1;
    FLOTA_CHECK(larger.home_lines_ < (1ull << 40), "an index cannot place its entries");
  }
  pages_ = std::move(larger.pages_);
  home_lines_ = larger.home_lines_;
}

}  // namespace flota
