#include "data/samples.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace flota {
namespace {

constexpr size_t kMapped = 64 << 10;
constexpr size_t kLeast = 4096;

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

Buffer::~Buffer() {
  if (mapped_) {
    munmap(data_, capacity_);
  } else {
    std::free(data_);
  }
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(capacity_, other.capacity_);
  std::swap(mapped_, other.mapped_);
}

void Buffer::grow(size_t least) {
  // Pages that were never written to cost nothing, so that mapped memory may double as well.
  size_t wanted = std::max({least, capacity_ * 2, kLeast});
  if (wanted < kMapped) {
    auto* moved = static_cast<std::byte*>(std::realloc(data_, wanted));
    if (moved == nullptr) throw std::bad_alloc();
    data_ = moved;
    capacity_ = wanted;
    return;
  }
  wanted = (wanted + kLeast - 1) / kLeast * kLeast;
  void* moved = mapped_ ? mremap(data_, capacity_, wanted, MREMAP_MAYMOVE)
                        : mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (moved == MAP_FAILED) throw std::bad_alloc();
  if (!mapped_ && size_ > 0) std::memcpy(moved, data_, size_);
  if (!mapped_) std::free(data_);
  data_ = static_cast<std::byte*>(moved);
  capacity_ = wanted;
  mapped_ = true;
}

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
