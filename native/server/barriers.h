#pragma once

#include <boost/unordered/unordered_node_map.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "common/deadline.h"
#include "common/result.h"

namespace flota {

// Places where `world` participants wait for each other, round after round. Coming again to the same round (after a
// broken connection) counts once. Thread safety: any thread.
class Barriers {
 public:
  // Returns when all ranks 0 .. world-1 came to this round; kDeadline names those that did not.
  Result<void> arrive(const std::string& name, uint64_t round, uint32_t rank, uint32_t world, Deadline deadline);
  // Everybody who waits gets kShuttingDown.
  void stop();

 private:
  static constexpr size_t kMaxBarriers = 65536;

  struct Place {
    uint64_t round = 0;
    uint32_t world = 0;
    std::map<uint32_t, uint32_t> waiting;  // rank to how many of its requests wait
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  boost::unordered_node_map<std::string, Place> places_;
  bool stopped_ = false;
};

}  // namespace flota
