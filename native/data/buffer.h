#pragma once

#include <cstddef>

namespace flota {

// Bytes that grow at their end. Large ones are the system's own pages: they grow without being copied, and go back to
// it at once when they are freed; but for a few of moderate size, which the next ones begin with: pages that are new to
// a process are a quarter of the cost of parsing into them.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Room for `more` bytes behind the end. What was there may move.
  std::byte* reserve(size_t more) {
    if (size_ + more > capacity_) grow(size_ + more);
    return data_ + size_;
  }
  void advance(size_t bytes) { size_ += bytes; }

 private:
  void grow(size_t least);
  void swap(Buffer& other) noexcept;

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
  bool mapped_ = false;
};

}  // namespace flota
