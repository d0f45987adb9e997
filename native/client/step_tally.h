#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "wire/messages.h"

namespace flota {

// What servers have answered for of a client's steps. Each finish tells it, so that a server that has lost the end of
// its log, as the death of a machine may do, does not go on as if it had everything. Thread safety: any thread.
class StepTally {
 public:
  explicit StepTally(uint32_t servers) : servers_(servers) {}

  // The server has answered for a push that waits for its step.
  void answered(const PushHead& push, uint32_t server);

  struct Finish {
    std::string group;
    uint64_t step = 0;
    bool leave = false;
    uint64_t ordinal = 0;          // so many finishes of the worker there have been, this one included
    std::vector<uint64_t> pushes;  // of this step, by server
  };
  // What is told with this finish: the same again for one that comes again, or that was not answered for.
  Finish finish(const std::string& group, uint32_t rank, uint64_t step, bool leave);
  // How many of the worker's finishes all servers have answered for.
  uint64_t finished(uint32_t rank);
  // All servers have answered for it; or an earlier incarnation made it, and the worker goes on after it.
  void finished(uint32_t rank, Finish finish);

 private:
  struct Worker {
    Finish last;
    uint64_t group = 0;  // of the pushes below
    uint64_t step = 0;
    std::vector<uint64_t> pushes;  // by server
  };

  const uint32_t servers_;
  std::mutex mutex_;
  std::map<uint32_t, Worker> workers_;  // by rank
};

}  // namespace flota
