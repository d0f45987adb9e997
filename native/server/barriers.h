#pragma once

#include <boost/unordered/unordered_flat_set.hpp>
#include <boost/unordered/unordered_node_map.hpp>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "common/deadline.h"
#include "common/result.h"

namespace flota {

// Places where `world` participants wait for each other, again and again. Each call has a number of its own, so that
// one that comes again after a broken connection counts once, also when everybody else has gone on. Thread safety: any
// thread.
class Barriers {
 public:
  // What each rank has brought, in their order.
  using Brought = std::shared_ptr<const std::vector<std::vector<std::byte>>>;

  // Returns what all ranks 0 .. world-1 brought, when all are here; kDeadline names those that are not. A later call of
  // the same rank takes the place of one that still waits: its client has given it up.
  Result<Brought> arrive(const std::string& name, uint64_t call, uint32_t rank, uint32_t world, Deadline deadline,
                         std::span<const std::byte> brings = {});
  // Everybody who waits gets kShuttingDown.
  void stop();

 private:
  static constexpr size_t kMaxBarriers = 65536;

  struct Waiting {
    uint64_t call = 0;
    uint32_t requests = 0;  // how many of the same call
    std::vector<std::byte> brings;
  };
  struct Place {
    uint64_t gatherings = 0;  // how often everybody was here
    uint32_t world = 0;
    std::map<uint32_t, Waiting> waiting;           // by rank
    boost::unordered_flat_set<uint64_t> released;  // calls of the last gathering
    Brought brought;                               // by them
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  boost::unordered_node_map<std::string, Place> places_;
  bool stopped_ = false;
};

}  // namespace flota
