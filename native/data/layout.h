#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/result.h"

namespace flota {

// What one field of a sample holds, and what it becomes in a batch of B samples.
enum class FieldKind : uint8_t {
  kFloats = 0,     // `width` floats: a matrix [B, width]
  kIds = 1,        // `width` whole numbers of 64 bits: a matrix [B, width]
  kFloatList = 2,  // any number of floats: all values, and where each sample's begin
  kIdList = 3,     // the same with whole numbers
};

struct Field {
  FieldKind kind = FieldKind::kFloats;
  uint32_t width = 1;  // of kFloats and kIds; a list's is always 1

  bool operator==(const Field&) const = default;
  bool is_list() const { return kind == FieldKind::kFloatList || kind == FieldKind::kIdList; }
  size_t element_bytes() const { return kind == FieldKind::kFloats || kind == FieldKind::kFloatList ? 4 : 8; }
};

// Some neighbouring values of a field; a list is one value.
struct Part {
  uint32_t field = 0;
  uint32_t position = 0;
  uint32_t width = 1;
};

// Where a sample's fields lie in its row: whole numbers, floats, the lists' lengths (32 bits each); then each list's
// values, in the fields' order. The fixed part and each list are multiples of eight bytes, so a row is one too; what
// that adds at their ends is zero.
class Layout {
 public:
  static constexpr size_t kMaxFields = 4096;
  static constexpr size_t kMaxWidth = 1 << 20;

  static Result<Layout> make(std::vector<Field> fields);

  std::span<const Field> fields() const { return fields_; }
  // Where the field's values begin in a row; a list's length.
  size_t offset(size_t field) const { return offsets_[field]; }
  // Bytes of all but the lists' values.
  size_t fixed_bytes() const { return fixed_bytes_; }
  std::span<const uint32_t> lists() const { return lists_; }
  bool has_lists() const { return !lists_.empty(); }
  bool operator==(const Layout& other) const { return fields_ == other.fields_; }
  // Whether the parts are the whole of a sample, each value of it once: one that nothing writes would be whatever was
  // in memory before.
  bool is_tiled_by(std::vector<Part> parts) const;

  // Bytes of the row that begins here, if it lies within `bytes`; 0: it does not.
  size_t row_bytes(std::span<const std::byte> bytes) const;
  bool has_padding() const { return fixed_padding_ > 0 || has_float_lists_; }
  // Makes what is between the values of a row zero: rows travel to other processes as they are.
  void clear_padding(std::byte* row) const;

 private:
  std::vector<Field> fields_;
  std::vector<size_t> offsets_;
  std::vector<uint32_t> lists_;  // fields
  size_t fixed_bytes_ = 0;
  size_t fixed_padding_ = 0;  // of fixed_bytes_, at their end
  bool has_float_lists_ = false;
};

}  // namespace flota
