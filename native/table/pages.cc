#include "table/pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>

namespace flota {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLine = 64;

// Maps `bytes` (a multiple of kHugePage) on a huge-page boundary: maps one page more, then gives the ends back.
std::byte* map_huge(size_t bytes) {
  void* raw = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) throw std::bad_alloc();
  auto start = reinterpret_cast<uintptr_t>(raw);
  uintptr_t aligned = (start + kHugePage - 1) & ~(kHugePage - 1);
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
    bytes_ = (bytes + kHugePage - 1) & ~(kHugePage - 1);
    data_ = map_huge(bytes_);
  } else {
    bytes_ = (bytes + kLine - 1) & ~(kLine - 1);
    data_ = static_cast<std::byte*>(::operator new(bytes_, std::align_val_t{kLine}));
    std::memset(data_, 0, bytes_);
  }
}

Pages::~Pages() {
  if (data_ == nullptr) return;
  if (bytes_ >= kHugePage) {
    munmap(data_, bytes_);
  } else {
    ::operator delete(data_, std::align_val_t{kLine});
  }
}

}  // namespace flota
