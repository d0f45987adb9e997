#pragma once

#include <string>
#include <utility>
#include <vector>

#include "server/leases.h"
#include "testing.h"

// What the tests of leases share.
namespace flota {
inline std::ostream& operator<<(std::ostream& out, LeaseOutcome outcome) {
  constexpr const char* kNames[] = {"noted", "granted", "none", "over"};
  return out << kNames[static_cast<size_t>(outcome)];
}
}  // namespace flota

namespace flota::testing {

inline constexpr uint64_t kDone = ShardProgress::kDone;
inline constexpr uint64_t kReleased = ShardProgress::kReleased;
inline constexpr uint64_t kShort = LeaseRequest::kLeastTtl;
inline constexpr uint64_t kLong = 60'000;

using Progress = std::vector<ShardProgress>;

// A worker's end: counts its calls, and trains epoch 0 of 4 shards unless told otherwise.
struct Worker {
  Leases& leases;
  uint32_t rank = 0;
  uint64_t shards = 4;
  uint64_t epoch = 0;
  uint64_t incarnation = 0;
  uint64_t ttl = kLong;
  uint64_t first = 0;
  uint64_t stride = 1;
  std::string pass = "train";
  uint64_t calls = 0;

  LeaseRequest request(bool take, Progress progress = {}) {
    LeaseRequest message;
    message.pass = pass;
    message.epoch = epoch;
    message.shards = shards;
    message.rank = rank;
    message.world = 64;
    message.incarnation = incarnation;
    message.call = ++calls;
    message.ttl_ms = ttl;
    message.first = first;
    message.stride = stride;
    message.take = take;
    message.progress = std::move(progress);
    value_of(message.check());
    return message;
  }
  Result<LeaseReply> try_take(Progress progress = {}, Deadline deadline = Deadline::after(milliseconds(0))) {
    return leases.ask(request(true, std::move(progress)), deadline);
  }
  LeaseReply take(Progress progress = {}) { return value_of(try_take(std::move(progress))); }
  LeaseReply wait(Progress progress = {}) { return value_of(try_take(std::move(progress), patience())); }
  LeaseReply tell(Progress progress) { return value_of(leases.ask(request(false, std::move(progress)), patience())); }
  // The shard that it must be given.
  uint64_t shard(Progress progress = {}) {
    const LeaseReply reply = take(std::move(progress));
    BOOST_TEST_REQUIRE(reply.outcome == LeaseOutcome::kGranted);
    return reply.shard;
  }
};

}  // namespace flota::testing
