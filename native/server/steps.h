#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/deadline.h"
#include "common/result.h"
#include "server/finishes.h"
#include "server/record.h"
#include "server/step_average.h"
#include "wire/messages.h"

namespace flota {

// Groups of workers that train in step. What they push is held until each of them has finished the step or has left;
// then it is averaged and applied at once, so that a step's pulls see all of the steps before it and nothing of its
// own. Every server does so by itself: workers tell all of them. Thread safety: any thread.
class Steps {
 public:
  // Holds a push of the step that the group is in. `write` writes the push's record, once nothing else stands against
  // the push; where it fails, the push is not held. Empty: nothing is written.
  using Write = std::function<Result<void>()>;
  Result<void> hold(uint64_t group, uint32_t rank, uint64_t step, HeldPush push, const Write& write = {});

  // Returns when the step was applied; what it has changed is there until the group ends the next one. kDeadline names
  // those who are missing; the worker's finish still counts then, and it may wait again. A finish that comes again
  // after a broken connection is answered again.
  using Changed = std::shared_ptr<const std::vector<ChangedRows>>;
  Result<Changed> finish(const FinishStep& message, Deadline deadline);

  // This incarnation is the worker from here on: what earlier ones still send is refused. `drop`: and what they pushed
  // to a step that they did not finish is forgotten. Requires: frozen.
  void rejoin(uint32_t rank, uint32_t incarnation, bool drop);
  // The last step that the worker has finished, and whether it is applied.
  struct Standing {
    Finishes::Finish last;
    bool applied = false;
  };
  Standing standing(uint32_t rank);
  // They outlive the process beside the groups.
  Finishes& finishes() { return finishes_; }
  const Finishes& finishes() const { return finishes_; }

  // Everybody who waits gets kShuttingDown.
  void stop();

  // As in server/record.h. A finish that completes a step applies it, replayed too: to the same bits. The pushes that
  // it applies are held again by their own records. While a step is half applied, nothing can be saved.
  using FindTable = std::function<Result<std::shared_ptr<HostedTable>>(uint64_t id)>;
  void set_journal(Journal* journal) { journal_ = journal; }
  Freeze freeze();
  Result<void> save(Journal& out) const;
  Result<void> replay(RecordKind kind, std::span<const std::byte> payload, const FindTable& find);

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
    bool forgotten = false;  // by Steps, while somebody was about to use it
    bool failed = false;     // a step could not be applied whole: nobody may go on as if it had been
    uint64_t step = 0;
    uint32_t world = 0;                              // 0: nobody has told yet
    std::map<uint32_t, Member> ranks;                // in the order in which gradients are summed
    std::map<uint32_t, uint32_t> incarnations;       // of workers that were started again, by rank
    std::shared_ptr<std::vector<ChangedRows>> rows;  // of the last step; not changed once somebody has them
  };
  // A group with its lock.
  struct Entered {
    std::shared_ptr<Group> group;
    std::unique_lock<std::mutex> lock;
  };

  Result<std::shared_ptr<Group>> find_or_make(uint64_t id);
  Result<Entered> enter(uint64_t id);

  // Those below need the group's lock.
  //
  // Whether all have left.
  static bool over(const Group& group);
  // Whether the next push or finish begins the group, or begins it anew.
  static bool fresh(const Group& group) { return !group.begun || over(group); }
  static Result<void> check_incarnation(const Group& group, uint32_t rank, uint32_t incarnation);
  static Result<void> check_step(const Group& group, uint32_t rank, uint64_t step);
  static Result<void> check_finish(const Group& group, const FinishStep& message);
  // Whether all is here that the worker was answered for: a server whose machine died may have lost the end of its log.
  Result<void> check_whole(const Group& group, const FinishStep& message) const;
  // Whether the step that the worker finishes was applied before, with its finish.
  static bool applied(const Group& group, const FinishStep& message);
  // Whether the very same finish was noted before.
  static bool noted(const Group& group, const FinishStep& message);
  static void begin(Group& group, uint64_t step);
  // Notes the finish, and applies the step if it was the last one missing.
  void note(Group& group, const FinishStep& message);
  static bool complete(const Group& group);
  static void apply(Group& group);
  static std::string missing(const Group& group);

  static Result<void> save_group(Journal& out, uint64_t id, const Group& group);
  Result<void> replay_finish(std::span<const std::byte> payload);
  Result<void> replay_group(std::span<const std::byte> payload);
  Result<void> replay_push(std::span<const std::byte> payload, const FindTable& find);
  Result<void> replay_rows(std::span<const std::byte> payload);
  Result<std::shared_ptr<Group>> replayed_group(uint64_t id) const;

  std::mutex mutex_;
  bool stopped_ = false;
  Journal* journal_ = nullptr;
  std::map<uint32_t, uint32_t> incarnations_;  // for groups to come
  Finishes finishes_;
  boost::unordered_flat_map<uint64_t, std::shared_ptr<Group>> groups_;
};

}  // namespace flota
