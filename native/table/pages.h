#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace flota {

class PagePool;

// Zeroed memory on a 64-byte boundary, given back when it goes away.
class Pages {
 public:
  Pages() = default;
  // From two megabytes on it comes straight from the kernel on huge pages, and only what is touched takes real memory.
  explicit Pages(size_t bytes);  // throws std::bad_alloc
  ~Pages();
  Pages(Pages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        pool_(std::exchange(other.pool_, nullptr)) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(pool_, other.pool_);
    return *this;
  }

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  // Where the kernel has split its huge pages, as it does when a copy of the process is made and then one of the two
  // writes, it is laid on whole ones again. What is in it stays; who uses it meanwhile waits a moment. It takes long:
  // `between` is called before each page, and ends it by saying false; so is the answer then. Requires: not of a pool.
  using Between = std::function<bool()>;
  bool collapse(const Between& between) const;

 private:
  friend class PagePool;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  PagePool* pool_ = nullptr;  // null: its own
};

// Pieces of huge pages. A table is made of many arrays of some hundred kilobytes; on pages of four kilobytes each
// random access to them would walk the page tables, which costs more than the access itself. Thread safety: any thread.
// Requires: outlives what it gave.
class PagePool {
 public:
  // Small pieces come from the heap.
  Pages take(size_t bytes);  // throws std::bad_alloc

  // The same as Pages::collapse(), of all that it gave.
  using Between = Pages::Between;
  bool collapse(const Between& between);

 private:
  friend class Pages;
  void give_back(std::byte* data, size_t bytes);
  // Whether nothing of a huge page is in use. Requires: the lock.
  bool is_idle(std::byte* page) const;

  std::mutex mutex_;
  std::vector<Pages> blocks_;
  size_t block_bytes_ = 0;  // of all blocks
  // Pieces given back, by address; neighbours are joined. The huge pages that lie wholly inside one have been returned
  // to the kernel, which gives them again, zeroed, when they are touched: free pieces take hardly any real memory.
  std::map<std::byte*, size_t> free_;
  std::byte* fresh_ = nullptr;  // the newest block's untouched rest
  size_t fresh_bytes_ = 0;
};

}  // namespace flota
