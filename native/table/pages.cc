#include "table/pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

namespace flota {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLine = 64;
constexpr size_t kMinPiece = size_t{32} << 10;
constexpr size_t kMaxBlock = size_t{64} << 20;

constexpr size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Maps `bytes` (a multiple of kHugePage) on a huge-page boundary: maps one page more, then gives the ends back.
std::byte* map_huge(size_t bytes) {
  void* raw = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) throw std::bad_alloc();
  auto start = reinterpret_cast<uintptr_t>(raw);
  uintptr_t aligned = round_up(start, kHugePage);
  if (aligned > start) munmap(raw, aligned - start);
  uintptr_t end = start + bytes + kHugePage;
  if (end > aligned + bytes) munmap(reinterpret_cast<void*>(aligned + bytes), end - aligned - bytes);
  auto* data = reinterpret_cast<std::byte*>(aligned);
  madvise(data, bytes, MADV_HUGEPAGE);  // a kernel without huge pages refuses: only slower
  return data;
}

}  // namespace

Pages::Pages(size_t bytes) {
  if (bytes >= kHugePage) {
    bytes_ = round_up(bytes, kHugePage);
    data_ = map_huge(bytes_);
  } else {
    bytes_ = round_up(bytes, kLine);
    data_ = static_cast<std::byte*>(::operator new(bytes_, std::align_val_t{kLine}));
    std::memset(data_, 0, bytes_);
  }
}

Pages::~Pages() {
  if (data_ == nullptr) return;
  if (pool_ != nullptr) {
    pool_->give_back(data_, bytes_);
  } else if (bytes_ >= kHugePage) {
    munmap(data_, bytes_);
  } else {
    ::operator delete(data_, std::align_val_t{kLine});
  }
}

Pages PagePool::take(size_t bytes) {
  if (bytes < kMinPiece) return Pages(bytes);
  bytes = round_up(bytes, kLine);
  Pages piece;
  piece.bytes_ = bytes;
  piece.pool_ = this;
  {
    std::lock_guard lock(mutex_);
    auto fit = std::find_if(used_.begin(), used_.end(), [&](const auto& free) { return free.second >= bytes; });
    if (fit == used_.end()) {
      if (fresh_bytes_ < bytes) {
        // As large as all before it: few blocks for a large table, little for a small one. The old rest may still
        // serve.
        size_t size = round_up(std::max(bytes, std::clamp(block_bytes_, kHugePage, kMaxBlock)), kHugePage);
        Pages block(size);
        if (fresh_bytes_ > 0) used_.emplace(fresh_, fresh_bytes_);
        fresh_ = block.data();
        fresh_bytes_ = block.bytes();
        block_bytes_ += block.bytes();
        blocks_.push_back(std::move(block));
      }
      piece.data_ = std::exchange(fresh_, fresh_ + bytes);
      fresh_bytes_ -= bytes;
      return piece;  // untouched, hence zero
    }
    piece.data_ = fit->first;
    size_t rest = fit->second - bytes;
    used_.erase(fit);
    if (rest > 0) used_.emplace(piece.data_ + bytes, rest);
  }
  std::memset(piece.data_, 0, bytes);
  return piece;
}

void PagePool::give_back(std::byte* data, size_t bytes) {
  std::lock_guard lock(mutex_);
  auto next = used_.lower_bound(data);
  if (next != used_.end() && next->first == data + bytes) {
    bytes += next->second;
    next = used_.erase(next);
  }
  if (next != used_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == data) {
      before->second += bytes;
      return;
    }
  }
  used_.emplace(data, bytes);
}

}  // namespace flota
