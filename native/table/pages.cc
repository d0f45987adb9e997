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

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

// An older kernel refuses, and does it by itself some time later.
void collapse_one(std::byte* page) { madvise(page, kHugePage, MADV_COLLAPSE); }

// The huge pages that lie wholly inside [start, stop); when there are none, empty and at `stop`.
struct HugePages {
  HugePages() = default;
  HugePages(std::byte* start, std::byte* stop)
      : begin(reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(start), kHugePage))),
        end(reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(stop) / kHugePage * kHugePage)) {
    if (begin >= end) begin = end = stop;
  }
  std::byte* begin = nullptr;
  std::byte* end = nullptr;
};

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

bool Pages::collapse(const Between& between) const {
  if (bytes_ < kHugePage) return true;
  for (size_t at = 0; at < bytes_; at += kHugePage) {
    if (!between()) return false;
    collapse_one(data_ + at);
  }
  return true;
}

bool PagePool::is_idle(std::byte* page) const {
  if (page >= fresh_ && page + kHugePage <= fresh_ + fresh_bytes_) return true;
  auto next = free_.upper_bound(page);
  if (next == free_.begin()) return false;
  const auto& [start, bytes] = *std::prev(next);
  return page + kHugePage <= start + bytes;
}

bool PagePool::collapse(const Between& between) {
  std::vector<std::byte*> pages;
  {
    std::lock_guard lock(mutex_);
    for (const Pages& block : blocks_) {
      for (size_t at = 0; at < block.bytes(); at += kHugePage) {
        // What is with the kernel would become real memory.
        if (!is_idle(block.data() + at)) pages.push_back(block.data() + at);
      }
    }
  }
  for (std::byte* page : pages) {
    if (!between()) return false;
    collapse_one(page);
  }
  return true;
}

Pages PagePool::take(size_t bytes) {
  if (bytes < kMinPiece) return Pages(bytes);
  bytes = round_up(bytes, kLine);
  Pages piece;
  piece.bytes_ = bytes;
  piece.pool_ = this;
  HugePages untouched;
  {
    std::lock_guard lock(mutex_);
    // The smallest that is large enough, so that large ones stay whole.
    auto fit = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second >= bytes && (fit == free_.end() || it->second < fit->second)) fit = it;
    }
    if (fit == free_.end()) {
      if (fresh_bytes_ < bytes) {
        // As large as all before it: few blocks for a large table, little for a small one. The old rest may still
        // serve.
        Pages block(std::max(bytes, std::clamp(block_bytes_, kHugePage, kMaxBlock)));
        if (fresh_bytes_ > 0) free_.emplace(fresh_, fresh_bytes_);
        fresh_ = block.data();
        fresh_bytes_ = block.bytes();
        block_bytes_ += block.bytes();
        blocks_.push_back(std::move(block));
      }
      piece.data_ = std::exchange(fresh_, fresh_ + bytes);
      fresh_bytes_ -= bytes;
      return piece;  // untouched, hence zero
    }
    const auto [start, all] = *fit;
    untouched = HugePages(start, start + all);
    free_.erase(fit);
    if (all > bytes) free_.emplace(start + bytes, all - bytes);
    piece.data_ = start;
  }
  std::byte* end = piece.data_ + bytes;
  std::byte* zeros = std::min(untouched.begin, end);
  std::byte* zeros_end = std::min(untouched.end, end);
  std::memset(piece.data_, 0, static_cast<size_t>(zeros - piece.data_));
  std::memset(zeros_end, 0, static_cast<size_t>(end - zeros_end));
  return piece;
}

void PagePool::give_back(std::byte* data, size_t bytes) {
  std::lock_guard lock(mutex_);
  std::byte* start = data;
  std::byte* end = data + bytes;
  auto next = free_.lower_bound(data);
  if (next != free_.end() && next->first == end) {
    end += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == data) {
    start = std::prev(next)->first;
    free_.erase(std::prev(next));
  }
  free_.emplace(start, static_cast<size_t>(end - start));
  // Of the joined piece's huge pages, those that hold something of this one are not with the kernel yet.
  const HugePages whole(start, end);
  std::byte* from = std::max(whole.begin, data - kHugePage);
  std::byte* to = std::min(whole.end, data + bytes + kHugePage);
  from = HugePages(from, to).begin;
  to = HugePages(from, to).end;
  if (from < to) madvise(from, static_cast<size_t>(to - from), MADV_DONTNEED);
}

}  // namespace flota
