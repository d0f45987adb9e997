#pragma once

#include <boost/unordered/unordered_flat_set.hpp>
#include <boost/unordered/unordered_node_map.hpp>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "common/deadline.h"
#include "common/result.h"
#include "server/record.h"
#include "server/team.h"
#include "wire/messages.h"
#include "wire/rejoin_messages.h"

namespace flota {

// Places where `world` participants wait for each other, again and again. Each call has a number of its own, so that
// one that comes again after a broken connection counts once, also when everybody else has gone on. Thread safety: any
// thread.
//
// A worker that was started again goes through all barriers again, and nobody waits there for it any more. It counts
// how often it has been at each; what everybody brought then is kept, and is its answer.
class Barriers {
 public:
  // What each rank has brought, in their order.
  using Brought = std::shared_ptr<const std::vector<std::vector<std::byte>>>;

  // Gatherings that are kept, the newest, and their bytes.
  static constexpr size_t kMaxKept = 4096;
  static constexpr size_t kMaxKeptBytes = size_t{64} << 20;

  // Returns what all ranks 0 .. world-1 brought, when all are here; kDeadline names those that are not. A later call of
  // the same rank takes the place of one that still waits: its client has given it up. `count`: how often the worker
  // has been here before. A world of 0 is the job's workers: whoever belongs to them when the last one comes. Ranks
  // between them that do not have brought nothing.
  Result<Brought> arrive(const std::string& name, uint64_t call, uint32_t rank, uint32_t world, Deadline deadline,
                         std::span<const std::byte> brings = {}, uint64_t count = Barrier::kUncounted);
  // Who the job's workers are.
  void set_team(const Team* team) { team_ = team; }
  // The worker has left the job: what it brings is not wanted, and others may be all that there are.
  void leave(uint32_t rank);

  // Barriers that workers count, and how often everybody was there.
  std::vector<Passed> passed() const;
  // Everybody who waits gets kShuttingDown.
  void stop();

  // As in server/record.h.
  void set_journal(Journal* journal) { journal_ = journal; }
  Freeze freeze();
  Result<void> save(Journal& out) const;
  Result<void> replay(RecordKind kind, std::span<const std::byte> payload);

 private:
  static constexpr size_t kMaxBarriers = 65536;
  static constexpr size_t kMostBrought = size_t{128} << 20;  // bytes, by all of a gathering

  struct Waiting {
    uint64_t call = 0;
    uint32_t requests = 0;  // how many of the same call
    std::vector<std::byte> brings;
  };
  struct Place {
    uint64_t gatherings = 0;  // how often everybody was here
    bool counted = false;     // by those who come
    uint32_t world = 0;
    std::map<uint32_t, Waiting> waiting;           // by rank
    boost::unordered_flat_set<uint64_t> released;  // calls of the last gathering
    Brought brought;                               // by them
    std::map<uint64_t, Brought> kept;              // by the number of the gathering
  };
  struct Kept {
    std::string name;
    uint64_t number = 0;
    size_t bytes = 0;
  };
  // Everybody is here: what is written down of it.
  struct Gathering;

  // Those below need the lock.
  //
  // What a worker that was here before is told; null: it has to wait.
  Result<Brought> past(Place& place, const std::string& who, uint64_t count);
  Result<void> check_place(const Place& place, const std::string& who, uint32_t rank, uint32_t world) const;
  bool everybody_is_here(const Place& place) const;
  Result<void> check_room(const Place& place, const std::string& who, uint32_t rank, size_t brings) const;
  // Writes down who is here and what they brought, and lets them go.
  Result<void> gather(const std::string& name, Place& place);
  std::string missing(const Place& place) const;
  void release(const Gathering& gathering);
  void keep(const std::string& name, Place& place, uint64_t number);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  boost::unordered_node_map<std::string, Place> places_;
  std::deque<Kept> kept_;  // the oldest first
  size_t kept_bytes_ = 0;
  Journal* journal_ = nullptr;
  const Team* team_ = nullptr;
  bool stopped_ = false;
};

}  // namespace flota
