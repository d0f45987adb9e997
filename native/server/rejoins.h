#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "server/record.h"
#include "wire/rejoin_messages.h"

namespace flota {

// Which incarnation of each worker is at work, how often it was started, how far it said it has come, and who is on the
// way back to where it was. Thread safety: any thread.
class Rejoins {
 public:
  struct Worker {
    uint64_t worker = 0;
    uint32_t world = 0;
    uint32_t incarnation = 0;
    uint32_t starts = 0;
    uint64_t steps = 0;
    std::vector<std::byte> position;
  };

  // What is known of the worker; an incarnation of 0: nothing.
  Worker of(uint32_t rank) const;

  // This incarnation is the worker from here on. Again for the same incarnation it does the same. kStaleEpoch: a later
  // one is at work. Requires: frozen, with all parts that know workers, which are told before they thaw.
  Result<void> claim(const Rejoin& message);
  // How far the worker has come.
  Result<void> note(const Rejoin& message);

  // The worker has left: the next of its rank begins anew. Requires: frozen.
  void leave(uint32_t rank);

  // The worker is being started again, or joins late: its way begins, and for as long as this is said again it shows
  // life.
  void coming(uint32_t rank);

  // Those that are on their way and were heard of within this time.
  std::vector<OnItsWay> on_their_way(std::chrono::milliseconds within) const;

  // As in server/record.h. A kRejoin record concerns other parts too: the service replays those.
  void set_journal(Journal* journal) { journal_ = journal; }
  Freeze freeze();
  Result<void> save(Journal& out) const;
  Result<void> replay(RecordKind kind, std::span<const std::byte> payload);

 private:
  using Clock = std::chrono::steady_clock;
  struct Way {
    uint64_t reached = 0;
    uint64_t target = 0;
    Clock::time_point heard;
  };

  // Requires: the lock.
  Result<void> check(const Rejoin& message) const;
  void take(const Rejoin& message);

  mutable std::mutex mutex_;
  std::map<uint32_t, Worker> workers_;
  std::map<uint32_t, Way> ways_;
  Journal* journal_ = nullptr;
};

}  // namespace flota
