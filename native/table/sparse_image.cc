// The whole table as pages of bytes, for snapshots: rows are copied as they lie, index entries without their rows'
// numbers. docs/durable_format.md has the bytes.
#include <algorithm>
#include <cstring>

#include "common/row_copy.h"
#include "table/sparse_table.h"

namespace flota {
namespace {

enum class ImagePart : uint32_t { kHead = 1, kRows = 2, kWaiting = 3, kRemoved = 4 };

struct PageHead {
  ImagePart part;
  uint32_t subtable;
  uint64_t count;
};

struct SubtableHead {
  uint64_t era, rescored, keeps_removed, removed_since;
  uint64_t entries, home_lines, spare_lines;
  uint64_t forgotten;
  uint64_t newest_step;  // of the table
};

struct WaitingKey {
  uint64_t position, last_seen;
  float shows, clicks;
};

// Small enough to stay in the cache from being gathered to being written.
constexpr size_t kPageBytes = size_t{256} << 10;
constexpr size_t kLinesAhead = 8;

Error malformed(const char* what) { return {ErrorCode::kMalformed, std::string("a page of a table: ") + what}; }

Result<PageHead> head_of(std::span<const std::byte> page) {
  if (page.size() < sizeof(PageHead)) return malformed("shorter than its head");
  PageHead head;
  std::memcpy(&head, page.data(), sizeof(head));
  if (head.subtable >= kSubtables) return malformed("of a part that no table has");
  return head;
}

// A page as it grows.
class Page {
 public:
  explicit Page(const std::function<Result<void>(std::span<const std::byte>)>& write) : write_(write) {}

  std::byte* begin(ImagePart part, uint32_t subtable, uint64_t count, size_t item_bytes) {
    bytes_.resize(sizeof(PageHead) + count * item_bytes);
    const PageHead head{part, subtable, count};
    std::memcpy(bytes_.data(), &head, sizeof(head));
    return bytes_.data() + sizeof(head);
  }
  Result<void> write() { return write_(bytes_); }

  // All items of one size, as many to a page as fit.
  template <class Item>
  Result<void> write_all(ImagePart part, uint32_t subtable, std::span<const Item> items) {
    while (!items.empty()) {
      const auto some = items.first(std::min(items.size(), kPageBytes / sizeof(Item)));
      std::memcpy(begin(part, subtable, some.size(), sizeof(Item)), some.data(), some.size_bytes());
      FLOTA_TRY(write());
      items = items.subspan(some.size());
    }
    return {};
  }

 private:
  const std::function<Result<void>(std::span<const std::byte>)>& write_;
  std::vector<std::byte> bytes_;
};

template <class Item>
Result<std::vector<Item>> items_of(const PageHead& head, std::span<const std::byte> bytes) {
  if (bytes.size() / sizeof(Item) != head.count || bytes.size() % sizeof(Item) != 0) {
    return malformed("of another size than it says");
  }
  std::vector<Item> items(head.count);
  std::memcpy(items.data(), bytes.data(), bytes.size());
  return items;
}

}  // namespace

Result<void> SparseTable::save_image(const std::function<Result<void>(std::span<const std::byte>)>& write) const {
  Page page(write);
  const size_t row_limit = std::max<size_t>(kPageBytes / (sizeof(Entry) + row_bytes_), 1);
  std::vector<Entry> entries;
  for (uint32_t number = 0; number < kSubtables; ++number) {
    const Subtable& subtable = *subtables_[number];
    const Index& index = subtable.index;
    const SubtableHead head{subtable.era,           subtable.rescored,
                            subtable.keeps_removed, subtable.removed_since,
                            index.entries(),        index.home_lines(),
                            index.spare_lines(),    subtable.waiting ? subtable.waiting->forgotten() : 0,
                            newest_step()};
    FLOTA_TRY(page.write_all(ImagePart::kHead, number, std::span(&head, 1)));
    // Rows lie all over the memory: those of the lines to come are asked for while others are copied.
    uint64_t asked = 0;
    for (uint64_t line = 0; line < index.all_lines();) {
      entries.clear();
      for (; line < index.all_lines() && entries.size() < row_limit; ++line) {
        for (const Entry& entry : index.lines()[line].entries) {
          if (entry.row() == 0) break;
          entries.push_back(entry);
        }
      }
      if (entries.empty()) continue;
      std::byte* at = page.begin(ImagePart::kRows, number, entries.size(), sizeof(Entry) + row_bytes_);
      for (const Entry& entry : entries) {
        const Entry bare{entry.tag, entry.data & ~Entry::kRowMask};
        std::memcpy(at, &bare, sizeof(bare));
        at += sizeof(bare);
      }
      asked = 0;
      for (size_t i = 0; i < entries.size(); ++i) {
        for (; asked < std::min(entries.size(), i + kLinesAhead * Line::kEntries); ++asked) {
          prefetch_to_l2(subtable.arena.row(entries[asked].row()), row_bytes_);
        }
        std::memcpy(at, subtable.arena.row(entries[i].row()), row_bytes_);
        at += row_bytes_;
      }
      FLOTA_TRY(page.write());
    }
    if (subtable.waiting) {
      std::vector<WaitingKey> waiting;
      for (const auto& [position, tally] :
           subtable.waiting->page(0, static_cast<unsigned __int128>(1) << 64, subtable.waiting->size())) {
        waiting.push_back({position, tally.last_seen, tally.shows, tally.clicks});
      }
      FLOTA_TRY(page.write_all(ImagePart::kWaiting, number, std::span<const WaitingKey>(waiting)));
    }
    FLOTA_TRY(page.write_all(ImagePart::kRemoved, number, std::span<const Removed>(subtable.removed)));
  }
  return {};
}

Result<uint32_t> SparseTable::image_part(std::span<const std::byte> page) {
  FLOTA_ASSIGN(const PageHead head, head_of(page));
  return head.subtable;
}

Result<void> SparseTable::load_image(std::span<const std::byte> page, uint64_t most_bytes) {
  FLOTA_ASSIGN(const PageHead head, head_of(page));
  Subtable& subtable = *subtables_[head.subtable];
  const auto bytes = page.subspan(sizeof(PageHead));
  switch (head.part) {
    case ImagePart::kHead:
      return load_head(subtable, bytes, most_bytes);
    case ImagePart::kRows:
      if (bytes.size() / (sizeof(Entry) + row_bytes_) != head.count) return malformed("of another size than it says");
      if (bytes.size() % (sizeof(Entry) + row_bytes_) != 0) return malformed("of another size than it says");
      return load_rows(subtable, bytes);
    case ImagePart::kWaiting: {
      if (!subtable.waiting) return malformed("of waiting keys, which this table has none of");
      FLOTA_ASSIGN(const auto keys, items_of<WaitingKey>(head, bytes));
      for (const auto& key : keys) subtable.waiting->put(key.position, {key.shows, key.clicks, key.last_seen});
      return {};
    }
    case ImagePart::kRemoved: {
      FLOTA_ASSIGN(const auto removed, items_of<Removed>(head, bytes));
      subtable.removed.insert(subtable.removed.end(), removed.begin(), removed.end());
      return {};
    }
  }
  return malformed("of an unknown kind");
}

Result<void> SparseTable::load_head(Subtable& subtable, std::span<const std::byte> bytes, uint64_t most_bytes) {
  SubtableHead head;
  if (bytes.size() != sizeof(head)) return malformed("a head of another size");
  if (subtable.index.entries() != 0) return malformed("a head after rows");
  std::memcpy(&head, bytes.data(), sizeof(head));
  if (head.entries > most_bytes / (sizeof(Entry) + row_bytes_)) return malformed("more rows than there are bytes");
  subtable.era = head.era;
  subtable.rescored = head.rescored;
  subtable.keeps_removed = head.keeps_removed != 0;
  subtable.removed_since = head.removed_since;
  if (subtable.waiting) subtable.waiting->set_forgotten(head.forgotten);
  uint64_t newest = newest_step_.load(std::memory_order_relaxed);
  while (newest < head.newest_step && !newest_step_.compare_exchange_weak(newest, head.newest_step)) {
  }
  if (head.entries == 0) return {};
  // As many lines as it had, and so every entry finds its old place; a head that asks for more than any index has gets
  // fewer, and the index grows by itself.
  const uint64_t most_lines = 64 + head.entries * 32;
  const uint64_t lines = std::clamp<uint64_t>(head.home_lines, 8, most_lines);
  subtable.index.make_room(lines, std::clamp<uint64_t>(head.spare_lines, 8, most_lines));
  return {};
}

// Requires: whole entries and as many rows.
Result<void> SparseTable::load_rows(Subtable& subtable, std::span<const std::byte> bytes) {
  const size_t count = bytes.size() / (sizeof(Entry) + row_bytes_);
  const std::byte* row = bytes.data() + count * sizeof(Entry);
  for (size_t i = 0; i < count; ++i, row += row_bytes_) {
    Entry entry;
    std::memcpy(&entry, bytes.data() + i * sizeof(Entry), sizeof(Entry));
    const uint32_t number = subtable.arena.add();
    std::memcpy(subtable.arena.row(number), row, row_bytes_);
    entry.data = (entry.data & ~Entry::kRowMask) | number;
    if (subtable.index.add(entry)) continue;
    Entry* added = subtable.index.insert(entry.position(), number);
    *added = entry;
  }
  subtable.lines_hint.store(subtable.index.lines(), std::memory_order_relaxed);
  subtable.home_lines_hint.store(subtable.index.home_lines(), std::memory_order_relaxed);
  return {};
}

}  // namespace flota
