#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/hash.h"
#include "common/push.h"
#include "common/result.h"
#include "common/spec.h"
#include "wire/codec.h"

// The payloads of frames. Each has encode() and decode(); decode() refuses every value that is not the sender's to
// choose, so that what comes after it need not doubt. Spans point into the payload. docs/wire_format.md has the bytes.
namespace flota {

inline constexpr size_t kMaxMessageText = 4096;

struct CreateTable {
  TableSpec spec;

  void encode(Writer& out) const;
  static Result<CreateTable> decode(std::span<const std::byte> payload);
};

struct CreateTableReply {
  uint64_t table = 0;
  bool created = false;  // false: it was there already, with the same settings

  void encode(Writer& out) const;
  static Result<CreateTableReply> decode(std::span<const std::byte> payload);
};

struct DescribeTable {
  std::string name;

  void encode(Writer& out) const;
  static Result<DescribeTable> decode(std::span<const std::byte> payload);
};

struct DescribeTableReply {
  TableSpec spec;
  uint64_t rows = 0;
  uint64_t bytes = 0;

  void encode(Writer& out) const;
  static Result<DescribeTableReply> decode(std::span<const std::byte> payload);
};

// What a pull of sparse rows begins with; the keys follow.
struct PullHead {
  static constexpr size_t kBytes = 24;

  uint64_t table = 0;
  uint32_t count = 0;
  uint32_t dim = 0;
  bool create = true;  // whether missing rows are made

  void encode(Writer& out) const;
};
struct Pull : PullHead {
  std::span<const Key> keys;
  static Result<Pull> decode(std::span<const std::byte> payload);
};

// What the answer begins with; count * dim floats follow.
struct RowsHead {
  static constexpr size_t kBytes = 16;
  uint64_t version = 0;  // how many pushes the table had seen
  uint32_t count = 0;
  uint32_t dim = 0;

  void encode(Writer& out) const;
  static Result<RowsHead> decode(std::span<const std::byte> payload);
};

// What a push begins with. Sparse: `count` keys and count * dim floats follow. Dense: `count` block ids (32 bits each)
// and the blocks' values follow, and dim is 0.
struct PushHead {
  static constexpr size_t kBytes = 88;
  static constexpr uint64_t kNoVersion = ~uint64_t{0};

  uint64_t table = 0;
  uint64_t worker = 0;
  uint64_t sequence = 0;
  uint64_t oldest = 0;  // every sequence number below it was answered: the server may forget those
  uint64_t step = 0;
  // Workers that train together; 0: none. A gradient of a group is held until all have finished the step; a delta is
  // applied at once, and its keys are noted for the others to ask for.
  uint64_t group = 0;
  uint64_t seen = kNoVersion;  // the version that the values were computed from
  uint32_t epoch = 0;
  uint32_t rank = 0;  // the worker's place in its group
  PushKind kind = PushKind::kGradient;
  Storage element = Storage::kFloat32;  // what the values travel as; sparse: float32
  float lr = 0;
  float scale = 1;
  uint32_t count = 0;
  uint32_t dim = 0;
  // Sparse: how often the keys appeared, and how often with a click, follows the values: so many of the two columns.
  uint8_t told = 0;

  void encode(Writer& out) const;
  static Result<PushHead> decode(Reader& in);
};
struct Push : PushHead {
  std::span<const Key> keys;
  std::span<const float> values;
  std::span<const float> shows;   // as many as keys, or none
  std::span<const float> clicks;  // the same
  static Result<Push> decode(std::span<const std::byte> payload);
};
struct PushDense : PushHead {
  std::span<const uint32_t> blocks;
  std::span<const std::byte> values;  // of `element`, padded
  static Result<PushDense> decode(std::span<const std::byte> payload);
};

struct PushReply {
  bool applied = false;  // false: this push had been applied before

  void encode(Writer& out) const;
  static Result<PushReply> decode(std::span<const std::byte> payload);
};

// The answer: u64 version, and the blocks' values. The version is 0 until each of the blocks was written to, and never
// again; where it is the one that the client knows, it comes alone.
struct PullDense {
  static constexpr uint64_t kNoVersion = ~uint64_t{0};

  uint64_t table = 0;
  std::vector<uint32_t> blocks;
  uint64_t known = kNoVersion;  // the version of the values that the client has
  Storage element = Storage::kFloat32;

  void encode(Writer& out) const;
  static Result<PullDense> decode(std::span<const std::byte> payload);
};

// Everybody waits for everybody, and is given what each has brought.
struct Barrier {
  static constexpr size_t kMaxBytes = size_t{16} << 20;
  static constexpr uint64_t kUncounted = ~uint64_t{0};

  std::string name;
  uint64_t call = 0;  // the same when it is sent again
  uint32_t rank = 0;
  uint32_t world = 0;  // 0: the job's workers, however many these are when the last of them comes
  uint64_t wait_ms = 0;
  std::span<const std::byte> brings;  // at most kMaxBytes
  // How often the worker has been through this barrier: one that was started again goes through all of them again.
  uint64_t count = kUncounted;

  void encode(Writer& out) const;
  static Result<Barrier> decode(std::span<const std::byte> payload);
};

struct BarrierReply {
  std::vector<std::span<const std::byte>> brought;  // by rank; nothing of one that is not among the job's workers

  void encode(Writer& out) const;
  static Result<BarrierReply> decode(std::span<const std::byte> payload);
};

// A worker has pushed all it had to push in a step, and waits for the others.
struct FinishStep {
  static constexpr size_t kMaxPosition = size_t{64} << 10;

  std::string group;
  uint64_t step = 0;   // of the group
  uint64_t count = 0;  // steps that the worker has trained, this one included: what rules count by
  uint32_t rank = 0;
  uint32_t world = 0;
  double samples = 0;  // its weight in the average of all workers' gradients
  uint64_t wait_ms = 0;
  bool leave = false;      // it takes no part in later steps
  bool want_keys = false;  // the answer tells which rows have changed
  uint32_t incarnation = 0;
  // Where the worker's data stands once the step is applied, in words of its own: at most kMaxPosition.
  std::span<const std::byte> position = {};
  // By what it notices that it has lost something. So many steps the worker has finished, this one included, whatever
  // their groups; 0: it does not say.
  uint64_t ordinal = 0;
  uint64_t server = 0;                    // which of the next is asked
  std::span<const uint64_t> pushes = {};  // of this step, answered for by each server; or none

  void encode(Writer& out) const;
  static Result<FinishStep> decode(std::span<const std::byte> payload);
};

struct ChangedKeys {
  uint64_t table = 0;
  std::span<const Key> keys;
};
struct FinishStepReply {
  std::vector<ChangedKeys> tables;

  void encode(Writer& out) const;
  static Result<FinishStepReply> decode(std::span<const std::byte> payload);
};

// Asks which rows of a sparse table the other workers have changed (by deltas of a group) since a version.
struct ChangesRequest {
  uint64_t table = 0;
  uint64_t since = 0;  // 0: from the beginning
  uint64_t page = 0;   // the same, then the version of the page before
  uint32_t rank = 0;   // the worker's own changes are not told

  void encode(Writer& out) const;
  static Result<ChangesRequest> decode(std::span<const std::byte> payload);
};

struct ChangesReply {
  uint64_t version = 0;
  bool done = true;  // false: the next page begins after this version; true: ask from it next time
  std::span<const Key> keys;

  void encode(Writer& out) const;
  static Result<ChangesReply> decode(std::span<const std::byte> payload);
};

// A worker has finished a step by itself, and waits for those that are too far behind it.
struct Advance {
  std::string group;
  uint64_t step = 0;    // steps that it has finished
  uint64_t behind = 0;  // how many steps the others may be behind
  uint32_t rank = 0;
  uint32_t world = 0;  // 0: the job's workers, as at barriers
  uint64_t wait_ms = 0;
  bool leave = false;  // it takes no part in later steps, and does not wait
  bool rest = false;   // nobody waits for it until its next step, nor does it wait; the answer tells where others are
  uint32_t incarnation = 0;

  void encode(Writer& out) const;
  static Result<Advance> decode(std::span<const std::byte> payload);
};

struct AdvanceReply {
  uint64_t slowest = 0;  // every worker of the group has finished so many steps

  void encode(Writer& out) const;
  static Result<AdvanceReply> decode(std::span<const std::byte> payload);
};

struct Statistic {
  std::string table;  // empty: of the server itself
  std::string name;
  uint64_t value = 0;
};
struct StatisticsReply {
  std::vector<Statistic> values;

  void encode(Writer& out) const;
  static Result<StatisticsReply> decode(std::span<const std::byte> payload);
};
// Within a message: what StatisticsReply encodes.
Result<std::vector<Statistic>> get_statistics(Reader& in);

// What of a table: its rows; of a sparse one also the keys that are counted and have none yet (two floats each: shows
// and clicks), and those whose rows were removed (the key alone).
enum class RowsOf : uint8_t { kTable = 1, kWaiting = 2, kRemoved = 3 };

struct Export {
  uint64_t table = 0;
  uint64_t cursor = 0;
  uint32_t shard = 0;  // dense: the block's id
  uint32_t max_rows = 0;
  uint64_t since = 0;  // sparse: what was not touched since this era is left out
  RowsOf part = RowsOf::kTable;

  void encode(Writer& out) const;
  static Result<Export> decode(std::span<const std::byte> payload);
};

// Whole rows: the answer to an export, and what an import carries.
struct Rows {
  uint64_t table = 0;
  uint64_t next = 0;  // export: where to go on
  bool done = true;   // export: nothing is left
  uint32_t dim = 0;
  uint32_t state_floats = 0;
  std::span<const Key> keys;
  std::span<const uint64_t> updates;
  std::span<const uint64_t> last_seen;
  std::span<const float> weights;
  std::span<const float> state;
  RowsOf part = RowsOf::kTable;

  void encode(Writer& out) const;
  static Result<Rows> decode(std::span<const std::byte> payload);
};

struct ErrorReply {
  Error error;

  void encode(Writer& out) const;
  static Result<ErrorReply> decode(std::span<const std::byte> payload);
};

}  // namespace flota
