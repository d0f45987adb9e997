#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "common/deadline.h"
#include "common/result.h"
#include "wire/observe_messages.h"

namespace flota {

// Notes for people, on server 0: of each topic and worker the newest. They outlive nothing: workers post theirs again
// and again. Thread safety: any thread.
class Board {
 public:
  // Refused where all notes together would take too much memory.
  Result<PostReply> post(const Post& message);
  // Those that are newer than version `since`, of the topics that `parts` of an Observe say, the oldest first, until
  // they are of more than `enough` bytes together: then there may be more.
  std::vector<Note> notes(uint32_t parts, uint64_t since, size_t enough) const;
  // The worker is none of the job's any more.
  void leave(uint32_t rank);

 private:
  static constexpr size_t kMostBytes = size_t{64} << 20;

  struct Pinned {
    uint64_t version = 0;
    Deadline::Clock::time_point when{};
    std::shared_ptr<const std::vector<std::byte>> bytes;
  };

  mutable std::mutex mutex_;
  std::map<std::pair<Topic, uint32_t>, Pinned> notes_;
  size_t bytes_ = 0;
  uint64_t version_ = 0;
};

}  // namespace flota
