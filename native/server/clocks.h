#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/deadline.h"
#include "common/result.h"
#include "server/record.h"
#include "server/team.h"
#include "wire/messages.h"

namespace flota {

// How far each worker of a group has come, so that nobody runs away from the slowest. A worker that was never heard of
// has come nowhere; one that has left, or rests until its next step, holds nobody up. One server of a job keeps them.
// Thread safety: any thread.
class Clocks {
 public:
  // Notes how far the worker has come, and returns when all others have finished at least message.step - message.behind
  // steps: the least that anybody has. kDeadline names those who are behind; what was noted stays, and the worker may
  // wait again. A worker that rests is told how far the slowest of the others is, or where it is itself if there is
  // none: it may go on from there. An advance that comes again after a broken connection is answered again; one that
  // goes back is refused.
  Result<uint64_t> advance(const Advance& message, Deadline deadline);

  // The worker was started again: it rests, and may go on from wherever the others are. What its earlier incarnations
  // still say is refused. Requires: frozen.
  void rejoin(uint32_t rank, uint32_t incarnation);

  // The worker has left the job: nobody waits for it. Requires: frozen.
  void leave(uint32_t rank);

  // Who the job's workers are, in groups of all of them.
  void set_team(const Team* team) { team_ = team; }

  // Everybody who waits gets kShuttingDown.
  void stop();

  // As in server/record.h.
  void set_journal(Journal* journal) { journal_ = journal; }
  Freeze freeze();
  Result<void> save(Journal& out) const;
  Result<void> replay(RecordKind kind, std::span<const std::byte> payload);

 private:
  static constexpr size_t kMaxGroups = 4096;

  struct Member {
    uint64_t step = 0;
    bool left = false;
    bool rests = false;
  };
  struct Group {
    std::condition_variable changed;
    uint32_t world = 0;                // 0: the job's workers
    std::map<uint32_t, Member> ranks;  // those that were heard of

    // Whether a worker that was never heard of is waited for. Late ones come when they have been where others were.
    bool misses(uint32_t rank, const Team::Roll& roll) const;
    bool misses_any_beside(uint32_t rank, const Team::Roll& roll) const;
    bool over(const Team::Roll& roll) const;
    // The least that the workers beside this one, which was heard of, have finished; without those who have left or
    // rest.
    uint64_t slowest_beside(uint32_t rank, const Team::Roll& roll) const;
    // Those beside this one that have finished less.
    std::string behind(uint64_t step, uint32_t rank, const Team::Roll& roll) const;
  };

  // Those below need the lock.
  //
  // Whether the message tells anything new of the group, which may be null: there is none yet.
  Result<bool> check(const Group* group, const Advance& message) const;
  // Notes what is new, or refuses it and changes nothing.
  Result<void> note(uint64_t id, const Advance& message, Journal* journal);
  bool full() const;
  std::shared_ptr<const Team::Roll> roll() const;
  Result<void> replay_group(std::span<const std::byte> payload);

  // One for all groups: what is done under it takes no longer than a look at every worker.
  std::mutex mutex_;
  bool stopped_ = false;
  Journal* journal_ = nullptr;
  const Team* team_ = nullptr;
  std::map<uint32_t, uint32_t> incarnations_;  // of workers that were started again, by rank
  boost::unordered_flat_map<uint64_t, std::shared_ptr<Group>> groups_;
};

}  // namespace flota
