#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/deadline.h"
#include "common/result.h"
#include "server/record.h"
#include "wire/lease_messages.h"

namespace flota {

// Which shards of an epoch's data were trained, how far, and who has which. One server of a job keeps them; a process
// without servers keeps its own. Thread safety: any thread.
//
// A shard is free, leased or done. A lease that is not renewed ends, and its shard is free again: who is given it next
// is told how much of it was trained. An epoch whose shards are all done is over and costs no memory; so is any epoch
// below one that is over, unless it is open: somebody has left it in the middle.
class Leases {
 public:
  // Notes the caller's progress, renews the leases of the shards that it names, and hands out one more if message.take
  // says so: the lowest free one of its class (message.first and message.stride). Waits until the deadline while none
  // of the class is free but others hold some, which may come back; with all that is left in the caller's own hands it
  // does not wait. A call that comes again after a broken connection is given the same shard again. kStaleEpoch: a
  // later incarnation of the worker has asked, and what this one had was freed. Requires: message.check().
  Result<LeaseReply> ask(const LeaseRequest& message, Deadline deadline);

  // The worker was started again: what earlier incarnations had is free.
  Result<void> rejoin(uint32_t rank, uint64_t incarnation);

  // The worker has left: what it had is free. Requires: frozen.
  void leave(uint32_t rank);

  // For a checkpoint; who has which is not in it.
  LeaseStates state() const;
  // Replaces everything; nobody has anything. Who goes on with a shard gets it back by telling its progress.
  Result<void> restore(const LeaseStates& states);

  // Everybody who waits gets kShuttingDown.
  void stop();

  struct Counts {
    uint64_t granted = 0;
    uint64_t expired = 0;
  };
  Counts counts() const;

  // As in server/record.h. What a question has changed is written, not the question: it depends on the time. Leases
  // begin anew after a replay, when somebody asks.
  void set_journal(Journal* journal) { journal_ = journal; }
  Freeze freeze();
  Result<void> save(Journal& out) const;
  Result<void> replay(RecordKind kind, std::span<const std::byte> payload);

 private:
  using Time = Deadline::Clock::time_point;
  using Class = std::pair<uint64_t, uint64_t>;  // first, stride

  struct Lease {
    uint32_t rank = 0;
    uint64_t call = 0;  // that it was taken by
    uint64_t ttl_ms = 0;
    Time expires;
  };
  // How far a class was looked through.
  struct Cursor {
    uint64_t free = 0;    // none of its shards below is free
    uint64_t undone = 0;  // all of its shards below are done
  };
  struct Epoch {
    explicit Epoch(uint64_t shards) : left(shards), done(shards) {}

    std::condition_variable changed;  // a shard came free or was done, or all of this ended
    bool over = false;                // also when it was closed in the middle
    bool replaced = false;            // by restore()
    uint64_t left;
    std::vector<bool> done;
    boost::unordered_flat_map<uint64_t, uint64_t> samples;  // of shards that were begun and are not done
    boost::unordered_flat_map<uint64_t, Lease> leases;
    std::map<Class, Cursor> cursors;
    Time next_expiry = Time::max();  // no lease ends before

    Cursor& cursor(const Class& of);
    // The lowest free shard of the class, or the number of shards.
    uint64_t lowest_free(const Class& of);
    bool class_over(const Class& of);
    bool others_hold(const Class& of, uint32_t rank) const;
    uint64_t samples_of(uint64_t shard) const;
    std::vector<ShardRun> done_runs() const;

    void hold(uint64_t shard, const LeaseRequest& message);
    // Of what the worker has told of, those that it holds last from now on.
    void renew(const LeaseRequest& message);
    void set_free(uint64_t shard);
    void set_done(uint64_t shard);
    // What was not renewed in time.
    std::vector<uint64_t> ended(Time now) const;
    void find_next_expiry();
    // Frees what the worker holds.
    void free_all(uint32_t rank);
    // Whether the progress tells anything beside that the caller is alive.
    bool has_news(const LeaseRequest& message) const;
    // Notes the progress; returns the shards in it that are not the caller's.
    std::vector<uint64_t> note(const LeaseRequest& message);
  };
  struct Pass {
    uint64_t over_below = 0;  // epochs below that are not open are over
    uint64_t opened = 0;      // when its last epoch was, by a count of all that were
    std::map<uint64_t, std::shared_ptr<Epoch>> open;
  };
  struct Grant {
    std::string pass;
    uint64_t epoch = 0;
    uint64_t call = 0;
    uint64_t shard = 0;
  };
  static constexpr size_t kRememberedGrants = 64;
  struct Worker {
    uint64_t incarnation = 0;
    std::deque<Grant> grants;  // the last few, newest first, for answers that get lost
  };
  using Passes = std::map<std::string, Pass>;

  // What a question has changed. The numbers are on disk.
  enum class Change : uint64_t {
    kMet = 1,       // a worker, or a later incarnation of it
    kOpened = 2,    // an epoch
    kExpired = 3,   // these shards' leases
    kTold = 4,      // progress
    kGranted = 5,   // this shard
    kAgain = 6,     // this shard, to a call that was given it before
    kRestored = 7,  // everything
  };

  // Those below need the lock. Each change is made by a function of its own, by a question or by a replay; a question
  // writes it first. `shards`: which have expired, or the one that is granted.
  Result<void> write(Change change, const LeaseRequest& message, std::span<const uint64_t> shards = {});
  void meet_now(const LeaseRequest& message);
  std::shared_ptr<Epoch> open_now(const LeaseRequest& message);
  void expire_now(Epoch& epoch, std::span<const uint64_t> shards);
  std::vector<uint64_t> note_now(Epoch& epoch, const LeaseRequest& message);
  void grant_now(Epoch& epoch, const LeaseRequest& message, uint64_t shard, bool again);
  static Passes passes_of(const LeaseStates& states);
  void replace_now(Passes passes);

  Result<void> meet(const LeaseRequest& message);
  // The pass without open epochs whose last one was opened longest ago.
  Passes::iterator forgettable();
  // Null: it is over; or is still to be opened, which `opens` says.
  Result<std::shared_ptr<Epoch>> look(const LeaseRequest& message, bool& opens);
  // Null: it is over.
  Result<std::shared_ptr<Epoch>> find(const LeaseRequest& message);
  // Frees what was not renewed in time.
  Result<void> expire(Epoch& epoch, const LeaseRequest& message);
  Result<std::vector<uint64_t>> note(Epoch& epoch, const LeaseRequest& message);
  void close(Pass& pass, uint64_t number);
  // The shard that this very call was given before, or none.
  const Grant* given(const LeaseRequest& message) const;
  // Gives the caller a shard, if there is one for it.
  Result<bool> grant(Epoch& epoch, const LeaseRequest& message, LeaseReply& reply);
  Result<void> wait(std::unique_lock<std::mutex>& lock, Epoch& epoch, Deadline deadline);
  void begin_anew();

  Result<void> save_worker(Journal& out, uint32_t rank, const Worker& worker) const;
  static Result<void> save_epoch(Journal& out, const std::string& pass, uint64_t number, const Epoch& epoch);
  Result<void> replay_change(std::span<const std::byte> payload);
  Result<void> replay_state(std::span<const std::byte> payload);
  Result<void> replay_head(std::span<const std::byte> payload);
  Result<void> replay_worker(std::span<const std::byte> payload);
  Result<void> replay_pass(std::span<const std::byte> payload);
  Result<void> replay_epoch(std::span<const std::byte> payload);

  // One for all passes: what is done under it takes no longer than a look at what all workers hold.
  mutable std::mutex mutex_;
  bool stopped_ = false;
  bool replayed_ = false;  // and nobody has asked since
  Journal* journal_ = nullptr;
  Counts counts_;
  uint64_t opened_ = 0;
  Passes passes_;
  boost::unordered_flat_map<uint32_t, Worker> workers_;  // by rank
};

}  // namespace flota
