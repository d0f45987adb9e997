#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "wire/codec.h"

// The messages by which workers share the shards of a data set. Each is as in wire/messages.h; those that are also used
// without a wire have check(), which is the part of decode() that looks at values.
namespace flota {

inline constexpr uint64_t kMaxDataShards = uint64_t{1} << 20;
inline constexpr uint64_t kMaxEpochs = uint64_t{1} << 62;
inline constexpr uint64_t kMaxOpenEpochs = 8;  // of a pass
inline constexpr uint64_t kMaxPasses = 1024;

// How far a shard was trained.
struct ShardProgress {
  static constexpr uint64_t kDone = 1;
  static constexpr uint64_t kReleased = 2;  // given back: free for others, who go on after these samples

  uint64_t shard = 0;
  uint64_t samples = 0;
  uint64_t flags = 0;
};

// Tells how far the caller has come with shards of an epoch, which keeps them its own for another ttl_ms, and asks for
// one more.
struct LeaseRequest {
  static constexpr uint64_t kLeastTtl = 100;
  static constexpr uint64_t kMostTtl = 24 * 3600 * 1000;

  std::string pass;  // of whoever gives the same name, each shard is one's at a time
  uint64_t epoch = 0;
  uint64_t shards = 0;
  uint32_t rank = 0;
  uint32_t world = 0;
  uint64_t incarnation = 0;  // of the worker: higher after each restart
  uint64_t call = 0;         // rising; the same when it is sent again, and then given the same shard again
  uint64_t ttl_ms = 0;
  uint64_t first = 0;  // asks for one of the shards first, first + stride, ...
  uint64_t stride = 1;
  bool take = false;  // false: asks for none
  uint64_t wait_ms = kMostTtl;
  std::vector<ShardProgress> progress;

  Result<void> check() const;
  void encode(Writer& out) const;
  static Result<LeaseRequest> decode(std::span<const std::byte> payload);
};

enum class LeaseOutcome : uint8_t {
  kNoted = 0,    // none was asked for
  kGranted = 1,  // `shard` is the caller's, for ttl_ms
  kNone = 2,     // none came free in time: ask again
  kOver = 3,     // all that were asked for are done
  kOwn = 4,      // all of them that are not done are in the caller's own hands
};

struct LeaseReply {
  LeaseOutcome outcome = LeaseOutcome::kNoted;
  uint64_t shard = 0;
  uint64_t samples = 0;        // that were trained of it: to be skipped
  uint64_t left = 0;           // shards of the epoch that are not done
  std::vector<uint64_t> lost;  // shards of the request's progress that are no longer the caller's

  void encode(Writer& out) const;
  static Result<LeaseReply> decode(std::span<const std::byte> payload);
};

struct ShardRun {
  uint32_t begin = 0;
  uint32_t end = 0;
};
struct ShardSamples {
  uint64_t shard = 0;
  uint64_t samples = 0;
};

// What was trained of one epoch that is not over; with no shards, it says over_below of a pass without such epochs.
struct LeaseState {
  std::string pass;
  uint64_t epoch = 0;
  uint64_t shards = 0;
  uint64_t over_below = 0;            // epochs of the pass that are below and not listed are over
  std::vector<ShardRun> done;         // ascending
  std::vector<ShardSamples> partial;  // those that were begun; ascending
};
struct LeaseStates {
  std::vector<LeaseState> epochs;

  Result<void> check() const;
  void encode(Writer& out) const;
  static Result<LeaseStates> decode(std::span<const std::byte> payload);
};

}  // namespace flota
