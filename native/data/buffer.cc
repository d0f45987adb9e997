#include "data/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

namespace flota {
namespace {

constexpr size_t kMapped = 64 << 10;
constexpr size_t kLeast = 4096;

// Mapped memory that was freed, for the next who needs some. Any thread; one that finds another at it goes without, and
// so does a forked process that was made at that moment.
class Spares {
 public:
  struct Area {
    std::byte* data = nullptr;
    size_t capacity = 0;
  };

  // One of at least so many bytes; empty: there is none.
  Area take(size_t least) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return {};
    for (Area& area : areas_) {
      if (area.capacity >= least) return std::exchange(area, {});
    }
    return {};
  }

  // False: it is not wanted.
  bool keep(Area area) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || area.capacity > kLargest) return false;
    for (Area& place : areas_) {
      if (place.data != nullptr) continue;
      place = area;
      return true;
    }
    return false;
  }

 private:
  static constexpr size_t kMost = 4;
  static constexpr size_t kLargest = 2 << 20;

  std::mutex mutex_;
  std::array<Area, kMost> areas_ = {};
};

Spares& spares() {
  static auto* const spares = new Spares();  // never freed: buffers may outlive all that is
  return *spares;
}

std::byte* map(size_t bytes) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(mapped);
}

// The same bytes with more room behind them.
std::byte* enlarge(std::byte* data, size_t capacity, size_t wanted) {
#if defined(__SANITIZE_THREAD__)
  // It does not see mremap, and takes memory that has moved away for that of whoever had it before. Copied if it is not
  // too much.
  if (capacity <= size_t{64} << 20) {
    std::byte* copied = map(wanted);
    std::memcpy(copied, data, capacity);
    munmap(data, capacity);
    return copied;
  }
#endif
  void* moved = mremap(data, capacity, wanted, MREMAP_MAYMOVE);
  if (moved == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(moved);
}

}  // namespace

Buffer::~Buffer() {
  if (!mapped_) {
    std::free(data_);
  } else if (!spares().keep({data_, capacity_})) {
    munmap(data_, capacity_);
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
  if (mapped_) {
    data_ = enlarge(data_, capacity_, wanted);
    capacity_ = wanted;
    return;
  }
  Spares::Area area = spares().take(wanted);
  if (area.data == nullptr) area = {map(wanted), wanted};
  if (size_ > 0) std::memcpy(area.data, data_, size_);
  std::free(data_);
  data_ = area.data;
  capacity_ = area.capacity;
  mapped_ = true;
}

}  // namespace flota
