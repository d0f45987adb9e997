#include "table/index.h"

namespace flota {

Entry* Index::insert(uint64_t position, uint32_t row) {
  // At most 62% full, one key in twelve is not in its home line; fuller, lookups pay for a second line too often, and
  // emptier, memory does. By an eighth: homes keep their order when the number of lines changes, so moving is one pass
  // over both in sequence, cheap enough to do often, and memory stays close to what is used.
  if (entries_ * 100 >= home_lines_ * Line::kEntries * 62) {
    move_to(next_lines(), spare_lines_);
  }
  Entry* entry = place(position);
  // Keys that come in the order of their hashes, as they do from an export or a checkpoint, crowd where they begin, and
  // so do those of a server that holds one shard in many. Lines that part them are made now; without, each key would
  // walk past all before it. Keys chosen to collide may have it grow for nothing, up to a bound.
  while (is_crowded(entry, position) && home_lines_ < entries_ * kMostLinesAnEntry) {
    move_to(next_lines(), spare_lines_);
    entry = place(position);
  }
  while (entry == nullptr) {
    // Many keys crowd at the end: they need room there, and more lines everywhere would not part them.
    move_to(home_lines_, spare_lines_ * 2);
    entry = place(position);
  }
  *entry = Entry{position, row};
  ++entries_;
  return entry;
}

void Index::make_room(uint64_t home_lines, uint64_t spare_lines) { move_to(home_lines, spare_lines); }

bool Index::add(const Entry& entry) {
  Entry* place = home_lines_ == 0 ? nullptr : this->place(entry.position());
  if (place == nullptr) return false;
  *place = entry;
  ++entries_;
  return true;
}

bool Index::is_crowded(const Entry* entry, uint64_t position) const {
  const Line* line = entry == nullptr ? lines() + all_lines() - 1 : line_of(entry);
  if (line - home(position) <= kFarLines) return false;
  // Of those in its way, one from the middle: if that has another home among many more lines, they can be parted.
  const Entry& other = (line - (line - home(position)) / 2)->entries[0];
  const auto home_among_many = [this](uint64_t at) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(at) * (home_lines_ * kMostLinesAnEntry)) >> 64);
  };
  return home_among_many(other.position()) != home_among_many(position);
}

uint64_t Index::next_lines() const {
  if (home_lines_ == 0) return kFirstLines;
  const uint64_t next = home_lines_ + home_lines_ / 8;
  // Out of step once, by a part of the eighth, and then for ever.
  constexpr uint64_t kPart = 1024;
  return home_lines_ < kPart && next >= kPart ? kPart + phase_ * (kPart / 8 / kPhases) : next;
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

}  // namespace flota
