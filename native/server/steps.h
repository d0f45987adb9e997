#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/deadline.h"
#include "common/result.h"
#include "server/step_average.h"
#include "wire/messages.h"

namespace flota {

// Groups of workers that train in step. What they push is held until each of them has finished the step or has left;
// then it is averaged and applied at once, so that a step's pulls see all of the steps before it and nothing of its
// own. Every server does so by itself: workers tell all of them. Thread safety: any thread.
class Steps {
 public:
  // Holds a push of the step that the group is in.
  Result<void> hold(uint64_t group, uint32_t rank, uint64_t step, HeldPush push);

  // Returns when the step was applied; what it has changed is there until the group ends the next one. kDeadline names
  // those who are missing; the worker's finish still counts then, and it may wait again. A finish that comes again
  // after a broken connection is answered again.
  using Changed = std::shared_ptr<const std::vector<ChangedRows>>;
  Result<Changed> finish(const FinishStep& message, Deadline deadline);

  // Everybody who waits gets kShuttingDown.
  void stop();

 private:
  static constexpr size_t kMaxGroups = 4096;

  struct Member {
    bool finished = false;  // the group's step
    bool leaves = false;
    bool left = false;
    bool ever = false;  // has finished a step
    uint64_t last = 0;  // that one
    uint64_t count = 0;
    double samples = 0;
    std::vector<HeldPush> pushes;
  };
  struct Group {
    std::mutex mutex;
    std::condition_variable changed;
    bool begun = false;
    bool stopped = false;
    bool failed = false;  // a step could not be applied whole: nobody may go on as if it had been
    uint64_t step = 0;
    uint32_t world = 0;                // 0: nobody has told yet
    std::map<uint32_t, Member> ranks;  // in the order in which gradients are summed
    Changed rows;                      // of the last step
  };

  Result<std::shared_ptr<Group>> group(uint64_t id);
  // Whether all have left. Requires: the group's lock is held.
  static bool over(const Group& group);
  static Result<void> check_step(Group& group, uint32_t rank, uint64_t step);
  static bool complete(const Group& group);
  static void apply(Group& group);
  static std::string missing(const Group& group);

  std::mutex mutex_;
  bool stopped_ = false;
  boost::unordered_flat_map<uint64_t, std::shared_ptr<Group>> groups_;
};

}  // namespace flota
