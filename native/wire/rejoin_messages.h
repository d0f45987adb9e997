#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "wire/codec.h"

// Messages by which a worker that was started again finds its place, and others learn that it is on its way.
namespace flota {

enum class RejoinPart : uint8_t {
  kAsk = 1,     // nothing changes
  kClaim = 2,   // this incarnation is the worker from here on: what earlier ones still send is refused
  kDrop = 3,    // and what they have pushed to a step that they did not finish is forgotten
  kNote = 4,    // how far it has come
  kComing = 5,  // somebody else says it: the worker is being started again
};

struct Rejoin {
  RejoinPart part = RejoinPart::kAsk;
  uint64_t worker = 0;  // as in pushes
  uint32_t rank = 0;
  uint32_t world = 0;
  uint32_t incarnation = 0;  // an ask, and who says that it is coming: 0
  uint32_t starts = 0;       // a claim: how often the worker was started, this time included
  uint64_t steps = 0;        // a note: steps of this worker that the tables have for good
  uint64_t reached = 0;      // a note: how many it has gone through again
  uint64_t target = 0;       // a note: of how many; 0: it is where it was
  uint64_t within_ms = 0;    // an ask: workers that have shown life within this time and are on their way are told
  // A note: where the worker stands, in words of its own: at most FinishStep::kMaxPosition.
  std::span<const std::byte> position = {};

  void encode(Writer& out) const;
  static Result<Rejoin> decode(std::span<const std::byte> payload);
};

// The last step that a worker has finished here.
struct LastFinish {
  bool applied = false;  // everybody has
  bool leave = false;
  uint64_t step = 0;
  uint64_t count = 0;
  double samples = 0;
  std::string group;  // empty: it has finished none
  std::span<const std::byte> position = {};
  uint64_t ordinal = 0;                   // as in FinishStep
  std::span<const uint64_t> pushes = {};  // the same
};

struct Passed {
  std::string name;    // of a barrier
  uint64_t times = 0;  // that everybody was there
};
struct OnItsWay {
  uint32_t rank = 0;
  uint64_t reached = 0;
  uint64_t target = 0;
};

struct RejoinReply {
  uint32_t incarnation = 0;  // the latest; 0: the worker was never here
  uint32_t starts = 0;
  uint64_t steps = 0;  // that it has noted
  std::span<const std::byte> position = {};
  LastFinish last;
  std::vector<Passed> passed;  // to a claim: barriers that workers count
  std::vector<OnItsWay> on_their_way;

  void encode(Writer& out) const;
  static Result<RejoinReply> decode(std::span<const std::byte> payload);
};

}  // namespace flota
