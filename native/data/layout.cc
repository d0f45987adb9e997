#include "data/layout.h"

#include <cstring>
#include <string>

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
  }
  layout.fixed_bytes_ = round_up(layout.fixed_bytes_);
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

}  // namespace flota
