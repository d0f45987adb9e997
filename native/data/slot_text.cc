#include "data/slot_text.h"

#include <algorithm>
#include <cstring>

#include "data/text.h"

namespace flota {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// The words of a line, one after another; empty: there are no more.
class Words {
 public:
  explicit Words(std::string_view line) : at_(line.data()), end_(line.data() + line.size()) {}

  std::string_view next() {
    while (at_ < end_ && is_space(*at_)) ++at_;
    const char* begin = at_;
    while (at_ < end_ && !is_space(*at_)) ++at_;
    return {begin, static_cast<size_t>(at_ - begin)};
  }

 private:
  const char* at_;
  const char* end_;
};

Error fault(std::string what) { return invalid(std::move(what)); }

// Takes `count` values of a slot; they go to `out`, one after another.
Result<void> take_values(Words& words, const Slot& slot, FieldKind kind, size_t count, std::byte* out) {
  const bool floats = kind == FieldKind::kFloats || kind == FieldKind::kFloatList;
  for (size_t i = 0; i < count; ++i) {
    const std::string_view word = words.next();
    if (word.empty()) {
      return fault("slot '" + slot.name + "' says " + std::to_string(count) + " values, and the line ends after " +
                   std::to_string(i));
    }
    if (floats) {
      double value = 0;
      if (!parse_number(word, value)) return fault("slot '" + slot.name + "': " + quoted(word) + " is no number");
      const auto narrow = static_cast<float>(value);
      if (!std::isfinite(narrow)) return fault("slot '" + slot.name + "': " + quoted(word) + " is too large a number");
      if (slot.binary && narrow != 0 && narrow != 1) {
        return fault("the label " + quoted(word) + " of slot '" + slot.name + "' is neither 0 nor 1");
      }
      std::memcpy(out + i * sizeof narrow, &narrow, sizeof narrow);
    } else {
      int64_t value = 0;
      if (!parse_id(word, value)) return fault("slot '" + slot.name + "': " + quoted(word) + " is no whole number");
      std::memcpy(out + i * sizeof value, &value, sizeof value);
    }
  }
  return {};
}

}  // namespace

Result<SlotText> SlotText::make(std::shared_ptr<const Layout> layout, std::vector<Slot> slots) {
  if (slots.empty()) return invalid("slot text needs at least one slot");
  uint32_t next_list = 0;
  std::vector<Part> parts;
  for (const Slot& slot : slots) {
    if (slot.field >= layout->fields().size()) return invalid("slot '" + slot.name + "' has no such field");
    const Field& field = layout->fields()[slot.field];
    if (field.is_list()) {
      // A row's lists lie in the order of their fields.
      if (slot.field < next_list) return invalid("lists must come in the order of their fields");
      next_list = slot.field + 1;
    } else if (slot.width == 0 || size_t{slot.position} + slot.width > field.width) {
      return invalid("slot '" + slot.name + "' does not fit its field");
    }
    parts.push_back(field.is_list() ? Part{slot.field} : Part{slot.field, slot.position, slot.width});
  }
  if (!layout->is_tiled_by(std::move(parts))) return invalid("slots must fill each value of a sample, and only once");
  SlotText text;
  text.layout_ = std::move(layout);
  text.slots_ = std::move(slots);
  return text;
}

Result<size_t> SlotText::parse_line(std::string_view line, std::byte* row) const {
  Words words(line);
  std::byte* tail = row + layout_->fixed_bytes();
  for (const Slot& slot : slots_) {
    const std::string_view word = words.next();
    int64_t count = 0;
    if (word.empty()) return fault("the line ends before slot '" + slot.name + "'");
    if (!parse_id(word, count) || count < 0) {
      return fault("slot '" + slot.name + "' must begin with the number of its values, not with " + quoted(word));
    }
    const auto many = static_cast<size_t>(count);
    const Field& field = layout_->fields()[slot.field];
    if (!field.is_list()) {
      if (many != slot.width) {
        return fault("slot '" + slot.name + "' has " + std::to_string(many) + " values, not " +
                     std::to_string(slot.width));
      }
      std::byte* out = row + layout_->offset(slot.field) + slot.position * field.element_bytes();
      FLOTA_TRY(take_values(words, slot, field.kind, many, out));
      continue;
    }
    if (many > std::min<size_t>(line.size() / 2, UINT32_MAX)) {
      return fault("slot '" + slot.name + "' says " + std::to_string(many) + " values, more than the line holds");
    }
    const auto length = static_cast<uint32_t>(many);
    std::memcpy(row + layout_->offset(slot.field), &length, sizeof length);
    FLOTA_TRY(take_values(words, slot, field.kind, many, tail));
    tail += (many * field.element_bytes() + 7) / 8 * 8;
  }
  if (const std::string_view more = words.next(); !more.empty()) {
    return fault(quoted(more) + " follows the last slot, '" + slots_.back().name + "'");
  }
  return static_cast<size_t>(tail - row) - layout_->fixed_bytes();
}

Parsed SlotText::parse(std::string_view text, BadLines policy, Samples& out) const {
  Parsed parsed;
  const char* at = text.data();
  const char* end = at + text.size();
  const size_t lists = layout_->lists().size();
  while (at < end) {
    const auto* newline = static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
    const char* stop = newline == nullptr ? end : newline;
    const auto length = static_cast<size_t>(stop - at);
    // A value and the space before it are two characters at least, and eight bytes at most.
    const size_t most = lists == 0 ? 0 : 4 * length + 8 * (lists + 1);
    const Result<size_t> tail = parse_line({at, length}, out.open(most));
    if (tail) {
      out.close(*tail);
    } else {
      parsed.add(parsed.lines, tail.error().message);
    }
    ++parsed.lines;
    if (!tail && policy == BadLines::kStop) break;
    at = newline == nullptr ? end : newline + 1;
  }
  return parsed;
}

}  // namespace flota
