#include "data/layout.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

namespace flota {
namespace {

constexpr size_t round_up(size_t bytes) { return (bytes + 7) / 8 * 8; }

}  // namespace

Result<Layout> Layout::make(std::vector<Field> fields) {
  if (fields.empty() || fields.size() > kMaxFields) return invalid("a sample must have 1 to 4,096 fields");
  Layout layout;
  layout.offsets_.resize(fields.size());
  auto place = [&](FieldKind kind) -> Result<void> {
    for (size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].kind != kind) continue;
      if (fields[i].width == 0 || fields[i].width > kMaxWidth) {
        return invalid("a field of a sample must have 1 to 1,048,576 values, not " + std::to_string(fields[i].width));
      }
      layout.offsets_[i] = layout.fixed_bytes_;
      layout.fixed_bytes_ += fields[i].width * fields[i].element_bytes();
    }
    return {};
  };
  FLOTA_TRY(place(FieldKind::kIds));
  FLOTA_TRY(place(FieldKind::kFloats));
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!fields[i].is_list()) continue;
    layout.offsets_[i] = layout.fixed_bytes_;
    layout.fixed_bytes_ += sizeof(uint32_t);
    layout.lists_.push_back(static_cast<uint32_t>(i));
    layout.has_float_lists_ |= fields[i].kind == FieldKind::kFloatList;
    fields[i].width = 1;
  }
  layout.fixed_padding_ = round_up(layout.fixed_bytes_) - layout.fixed_bytes_;
  layout.fixed_bytes_ += layout.fixed_padding_;
  layout.fields_ = std::move(fields);
  return layout;
}

size_t Layout::row_bytes(std::span<const std::byte> bytes) const {
  size_t total = fixed_bytes_;
  if (bytes.size() < total) return 0;
  for (uint32_t field : lists_) {
    uint32_t count = 0;
    std::memcpy(&count, bytes.data() + offsets_[field], sizeof count);
    total += round_up(count * fields_[field].element_bytes());
    if (bytes.size() < total) return 0;
  }
  return total;
}

bool Layout::is_tiled_by(std::vector<Part> parts) const {
  auto place = [](const Part& part) { return std::tuple(part.field, part.position); };
  std::sort(parts.begin(), parts.end(), [&](const Part& a, const Part& b) { return place(a) < place(b); });
  uint32_t field = 0;
  uint64_t filled = 0;  // values of it
  for (const Part& part : parts) {
    if (part.field != field || part.position != filled) return false;
    filled += part.width;
    if (filled < fields_[field].width) continue;
    if (filled > fields_[field].width) return false;
    filled = 0;
    if (++field == fields_.size()) return &part == &parts.back();
  }
  return false;
}

void Layout::clear_padding(std::byte* row) const {
  std::byte* end = row + fixed_bytes_;
  std::memset(end - fixed_padding_, 0, fixed_padding_);
  if (!has_float_lists_) return;
  for (uint32_t field : lists_) {
    uint32_t count = 0;
    std::memcpy(&count, row + offsets_[field], sizeof count);
    const size_t bytes = count * fields_[field].element_bytes();
    std::memset(end + bytes, 0, round_up(bytes) - bytes);
    end += round_up(bytes);
  }
}

}  // namespace flota
