#include "data/samples.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace flota {
namespace {

std::unique_ptr<std::byte[]> room(size_t bytes) { return std::unique_ptr<std::byte[]>(new std::byte[bytes]); }

void gather_matrix(const Layout& layout, size_t field, std::span<const std::byte* const> rows, Column& column) {
  const size_t bytes = column.field.width * column.field.element_bytes();
  const size_t offset = layout.offset(field);
  column.count = rows.size() * column.field.width;
  column.values = room(rows.size() * bytes);
  std::byte* out = column.values.get();
  for (const std::byte* row : rows) {
    std::memcpy(out, row + offset, bytes);
    out += bytes;
  }
}

}  // namespace

void Samples::append(std::span<const std::byte> row) {
  const size_t tail = row.size() - layout_->fixed_bytes();
  std::memcpy(open(tail), row.data(), row.size());
  close(tail);
}

std::vector<Column> gather(const Layout& layout, std::span<const std::byte* const> rows) {
  std::vector<Column> columns(layout.fields().size());
  // Where each row's next list begins.
  std::vector<const std::byte*> next;
  if (layout.has_lists()) {
    next.assign(rows.begin(), rows.end());
    for (const std::byte*& place : next) place += layout.fixed_bytes();
  }
  for (size_t field = 0; field < columns.size(); ++field) {
    Column& column = columns[field];
    column.field = layout.fields()[field];
    column.samples = rows.size();
    if (!column.field.is_list()) {
      gather_matrix(layout, field, rows, column);
      continue;
    }
    column.offsets.reset(new int64_t[rows.size() + 1]);
    int64_t total = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      uint32_t count = 0;
      std::memcpy(&count, rows[i] + layout.offset(field), sizeof count);
      column.offsets[i] = total;
      total += count;
    }
    column.offsets[rows.size()] = total;
    column.count = static_cast<size_t>(total);
    const size_t element = column.field.element_bytes();
    column.values = room(column.count * element);
    std::byte* out = column.values.get();
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t bytes = static_cast<size_t>(column.offsets[i + 1] - column.offsets[i]) * element;
      std::memcpy(out, next[i], bytes);
      out += bytes;
      next[i] += (bytes + 7) / 8 * 8;
    }
  }
  return columns;
}

}  // namespace flota
