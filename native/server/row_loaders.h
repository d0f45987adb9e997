#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "common/result.h"
#include "server/service.h"

namespace flota {

// Threads that put rows of a snapshot in their places while the next ones are read. Each part of a table has one of
// them, which sees its pages in their order. Thread safety: the caller's.
class RowLoaders {
 public:
  // `most_bytes`: of the snapshot.
  RowLoaders(Service& service, uint64_t most_bytes);
  ~RowLoaders() { static_cast<void>(finish()); }
  RowLoaders(const RowLoaders&) = delete;
  RowLoaders& operator=(const RowLoaders&) = delete;

  // Rows in time; an error may be that of earlier ones.
  Result<void> load(std::span<const std::byte> payload);
  // When all are in place.
  Result<void> finish();

 private:
  static constexpr size_t kMostWaiting = 16;

  struct Loader {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::vector<std::byte>> waiting;
    std::vector<std::vector<std::byte>> spare;  // memory to use again
    bool over = false;
    Result<void> status;
    std::thread thread;
  };

  void work(Loader& loader);

  Service& service_;
  uint64_t most_bytes_;
  std::vector<std::unique_ptr<Loader>> loaders_;
};

}  // namespace flota
