#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "common/result.h"
#include "wire/codec.h"

// Messages by which workers join a job and leave it, and by which their number is changed while it runs.
namespace flota {

enum class TeamPart : uint8_t {
  kAsk = 1,    // nothing changes
  kJoin = 2,   // this worker begins, for the first time or again
  kScale = 3,  // so many workers there shall be
  kLeave = 4,  // this worker has gone for good; it says so itself, or who saw it end says it for it
  kPin = 5,    // the number of workers may not change any more, as the worker depends on it
};

enum class TeamMode : uint8_t { kSync = 1, kAsync = 2, kGeo = 3 };
const char* to_string(TeamMode mode);

struct TeamRequest {
  static constexpr uint32_t kMaxWorkers = 1u << 20;
  static constexpr size_t kMaxWhy = 256;

  TeamPart part = TeamPart::kAsk;
  TeamMode mode = TeamMode::kAsync;  // a join: how the worker trains
  uint32_t rank = 0;                 // who joins, leaves or pins
  uint32_t workers = 0;              // a join: how many it believes there are; a scale: how many there shall be
  uint64_t wait_ms = 0;              // a join, a pin: for those that are to join or leave before
  std::string why = {};              // a pin: what depends on the number

  void encode(Writer& out) const;
  static Result<TeamRequest> decode(std::span<const std::byte> payload);
};

struct TeamReply {
  TeamMode mode = TeamMode::kAsync;
  bool late = false;     // to a join: the worker was none of those that the job began with
  uint32_t workers = 0;  // one more than the highest rank that has joined; 0: nobody has
  uint32_t wanted = 0;   // those of this rank and above are to leave; those below may join
  uint64_t version = 0;  // changes so far

  void encode(Writer& out) const;
  static Result<TeamReply> decode(std::span<const std::byte> payload);
};

}  // namespace flota
