#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/hash.h"
#include "common/result.h"
#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/messages.h"

// Messages by which people see how a job does: what servers count, and what workers say of themselves.
namespace flota {

// What a note is about. Nobody but people and their programs read notes: nothing in training depends on one.
enum class Topic : uint8_t {
  kState = 1,  // how a worker does
  kTrace = 2,  // where the time of some of its steps went
  kWish = 3,   // what somebody who looks on asks all workers for
};
const char* to_string(Topic topic);
// How long a note may be.
size_t most_bytes(Topic topic);

// A note for server 0, in place of the last one of this topic and rank.
struct Post {
  static constexpr uint32_t kMaxRank = 1u << 20;

  Topic topic = Topic::kState;
  uint32_t rank = 0;   // of the worker; a wish: 0
  uint64_t known = 0;  // the version of the wish that the sender knows
  std::span<const std::byte> note;

  void encode(Writer& out) const;
  static Result<Post> decode(std::span<const std::byte> payload);
};

struct PostReply {
  uint64_t wish_version = 0;    // 0: nobody has wished for anything
  std::vector<std::byte> wish;  // where the sender knows another

  void encode(Writer& out) const;
  static Result<PostReply> decode(std::span<const std::byte> payload);
};

struct Observe {
  // What is wanted beside the numbers.
  static constexpr uint32_t kHeat = 1;    // which rows of which tables are asked for
  static constexpr uint32_t kStates = 2;  // server 0: what workers say
  static constexpr uint32_t kTraces = 4;
  static constexpr uint32_t kAll = 7;

  uint32_t parts = 0;
  uint64_t since = 0;  // notes of this version and before are known

  void encode(Writer& out) const;
  static Result<Observe> decode(std::span<const std::byte> payload);
};

// Requests of one kind. Of pulls and pushes also how long they took: how many by bucket, none left out but empty ones.
struct RequestCounts {
  MessageKind kind{};
  uint64_t count = 0;
  uint64_t nanoseconds = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  std::vector<std::pair<uint32_t, uint64_t>> buckets;
};

// Which rows of a table are asked for, by a sample of the keys of its pulls, newer ones counting more.
struct TableHeat {
  struct HotKey {
    Key key = 0;
    uint64_t count = 0;
  };
  std::string table;
  uint64_t sampled = 0;
  std::vector<uint32_t> shards;  // kShards of them, or none where nothing was sampled
  std::vector<HotKey> keys;      // the most asked for, first the first
};

struct Note {
  Topic topic = Topic::kState;
  uint32_t rank = 0;
  uint64_t version = 0;
  uint64_t age_ms = 0;
  std::vector<std::byte> bytes;
};

struct ObserveReply {
  std::vector<Statistic> statistics;
  std::vector<RequestCounts> requests;
  std::vector<TableHeat> heat;
  std::vector<Note> notes;

  void encode(Writer& out) const;
  static Result<ObserveReply> decode(std::span<const std::byte> payload);
};

}  // namespace flota
