#pragma once

#include <cstddef>
#include <utility>

namespace flota {

// Zeroed memory on a 64-byte boundary. From two megabytes on it comes straight from the kernel on huge pages, where
// random access costs 5 to 30% less, and only what is touched takes real memory.
class Pages {
 public:
  Pages() = default;
  explicit Pages(size_t bytes);  // throws std::bad_alloc
  ~Pages();
  Pages(Pages&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace flota
