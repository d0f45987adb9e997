#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "common/result.h"

namespace flota {

// What a record tells. The numbers are on disk: they are only ever appended to.
enum class RecordKind : uint8_t {
  // Changes, in redo logs, in the order in which they were made.
  kRequest = 1,    // a request that is replayed as it came: u64 MessageKind, then its payload
  kFinish = 2,     // Steps: a worker has finished a step
  kGathering = 3,  // Barriers: everybody was here
  kAdvance = 4,    // Clocks: how far a worker has come
  kLease = 5,      // Leases: what a question has changed
  kLetter = 6,     // Mailboxes: a letter was put into its box
  kTaken = 7,      // Mailboxes: letters were taken
  kRejoin = 8,     // a worker was started again
  kTeam = 9,       // Team: who joins and leaves, and how many there shall be
  // State, in snapshots.
  kHead = 32,
  kTable = 33,
  kRows = 34,
  kParameter = 35,
  kHistory = 36,
  kChanges = 37,
  kLedger = 38,
  kSteps = 39,
  kBarriers = 40,
  kClocks = 41,
  kLeases = 42,
  kMailboxes = 43,
  kRejoins = 44,
  kFinishes = 45,
  kTeams = 46,
  kEnd = 63,
};

// Where records go: a redo log, or a snapshot. Thread safety: any thread.
//
// Whoever keeps state that must outlive the process writes a change here before making it, under the lock that orders
// such changes, so that replaying the records in their order gives the same state. A change that cannot be written is
// not made; its error goes to who asked for it. A change is only answered once it is written.
class Journal {
 public:
  virtual ~Journal() = default;
  // One record of these parts, one after another: written whole when it returns, or not at all. kNoSpace: the disk is
  // full, and the same may succeed later.
  virtual Result<void> write(RecordKind kind, std::initializer_list<std::span<const std::byte>> parts) = 0;
  // Before an answer: where what was written must outlive the machine and not just this process, waits until it does.
  virtual Result<void> settle() { return {}; }
};

}  // namespace flota
