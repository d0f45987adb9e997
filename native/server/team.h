#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/deadline.h"
#include "common/result.h"
#include "server/record.h"
#include "wire/team_messages.h"

namespace flota {

// Who the workers of a job are, as they come and go. Server 0 keeps it; others count no workers. The first worker that
// joins says how many the job begins with, and those are part of it from then on, whether they have been heard of or
// not. In async mode their number may be changed: then workers of the ranks above join, lowest first, and count from
// when they have; or those of the highest ranks are to leave, and count until they have. Thread safety: any thread.
class Team {
 public:
  // Who belongs to it at one time. A worker that was none of those that the job began with is late: it goes through
  // what they went through before, and nobody waits for it in a place that it has not come to by itself.
  struct Roll {
    std::map<uint32_t, bool> late;  // by rank

    // One more than the highest rank.
    uint32_t workers() const { return late.empty() ? 0 : late.rbegin()->first + 1; }
    bool has(uint32_t rank) const { return late.contains(rank); }
  };
  // Never null; the same until somebody joins or leaves. Empty: nobody has joined yet.
  std::shared_ptr<const Roll> roll() const;

  // kAsk: how many there are. kJoin: waits until those of lower ranks have joined; refused where the rank is none that
  // may. kScale: as its name says, or why not. kPin: waits for those that are to leave.
  Result<TeamReply> answer(const TeamRequest& message, Deadline deadline);
  // The worker has gone; nothing, if it was not there. Requires: frozen, with all parts that know workers, which are
  // told before they thaw.
  Result<TeamReply> leave(const TeamRequest& message);

  // Everybody who waits gets kShuttingDown.
  void stop();

  // As in server/record.h. A leave concerns other parts too: the service replays those.
  void set_journal(Journal* journal) { journal_ = journal; }
  Freeze freeze();
  Result<void> save(Journal& out) const;
  Result<void> replay(RecordKind kind, std::span<const std::byte> payload);

 private:
  // Those below need the lock.
  bool known() const { return wanted_ != 0; }
  Result<TeamReply> join(std::unique_lock<std::mutex>& lock, const TeamRequest& message, Deadline deadline);
  Result<void> pin(std::unique_lock<std::mutex>& lock, const TeamRequest& message, Deadline deadline);
  std::string fixed() const;
  // Whether the worker may join now; false: others have to come first.
  Result<bool> can_join(const TeamRequest& message) const;
  Result<void> check_scale(const TeamRequest& message) const;
  // Writes the change down, and makes it.
  Result<void> change(const TeamRequest& message);
  void apply(const TeamRequest& message);
  TeamReply told() const;
  Result<void> replay_state(std::span<const std::byte> payload);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  Journal* journal_ = nullptr;
  TeamMode mode_ = TeamMode::kAsync;
  uint32_t first_ = 0;   // how many the job began with
  uint32_t wanted_ = 0;  // 0: nobody has joined
  uint64_t version_ = 0;
  std::string pinned_;  // what depends on the number
  std::shared_ptr<const Roll> roll_ = std::make_shared<const Roll>();
};

}  // namespace flota
