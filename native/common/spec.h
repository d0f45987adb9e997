#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.h"

// What a table is, as plain data: the client describes it, the wire carries it, the server builds it. Nothing here
// knows a socket or a table.
namespace flota {

enum class RuleKind : uint8_t {
  kSgd = 1,
  kMomentum = 2,
  kAdagrad = 3,
  kRmsProp = 4,
  kAdam = 5,
  kAdamW = 6,
  kAdamax = 7,
  kLamb = 8,
  kFtrl = 9,
  kPaddleRmsProp = 10,
  kPaddleAdamax = 11,
  kLazyAdam = 12,
};

// Which count a rule calls "t" (bias corrections, learning-rate decay).
enum class StepSource : uint8_t {
  kRow = 1,   // the row's own updates: a row is a parameter of its own, skipped when it has no gradient
  kPush = 2,  // the step that travels with the push: what torch.optim.SparseAdam does
};

// Hyper-parameters, named as torch.optim names them. A rule uses some of them; validate() refuses the rest when set.
struct RuleSpec {
  RuleKind kind = RuleKind::kSgd;
  StepSource steps = StepSource::kRow;
  double lr = 0.01;  // used by pushes that bring no learning rate of their own
  double weight_decay = 0;
  double momentum = 0;
  double dampening = 0;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double alpha = 0;
  double lr_decay = 0;
  double initial_accumulator = 0;
  double l1 = 0;
  double l2 = 0;
  double lr_power = 0;
  bool nesterov = false;
  bool centered = false;
  bool amsgrad = false;

  bool operator==(const RuleSpec&) const = default;
};

enum class InitKind : uint8_t { kConstant = 1, kUniform = 2, kNormal = 3, kTruncatedNormal = 4, kXavierUniform = 5 };

// constant: a. uniform: [a, b). normal: mean a, deviation b. truncated normal: the same, kept within [low, high].
// Xavier: uniform with bound gain * sqrt(6 / (fan_in + fan_out)), where a is the gain, low is fan_in, high is fan_out.
struct InitSpec {
  InitKind kind = InitKind::kConstant;
  double a = 0;
  double b = 0;
  double low = 0;
  double high = 0;

  bool operator==(const InitSpec&) const = default;
};

// Which keys get rows.
enum class AdmissionKind : uint8_t {
  kAll = 1,          // each, when it is first asked for
  kCount = 2,        // those that were pushed `threshold` times
  kProbability = 3,  // each appearance of a key lets it in with this chance
  kShowClick = 4,    // those whose score of shows and clicks has reached `threshold`; rows go on counting both
};

// A key that has no row reads as zeros. It is counted by pushes, which come exactly once, and never by pulls. The push
// that lets it in makes the row, with its first values; gradients that were computed from zeros are not applied to it.
struct AdmissionSpec {
  AdmissionKind kind = AdmissionKind::kAll;
  double threshold = 0;
  double probability = 0;
  double show_weight = 0;   // of a show without a click, in the score
  double click_weight = 0;  // of a click
  // Keys without rows that are counted, over all servers. Of a shard that has its part of them, the half that was seen
  // the longest ago is forgotten.
  uint64_t waiting = 0;

  // Whether every key has a row as soon as it is asked for.
  bool admits_all() const {
    return kind == AdmissionKind::kAll || (kind == AdmissionKind::kShowClick && threshold <= 0);
  }
  // Whether rows keep what was shown and clicked.
  bool keeps_scores() const { return kind == AdmissionKind::kShowClick; }
  double score(double shows, double clicks) const { return show_weight * (shows - clicks) + click_weight * clicks; }

  bool operator==(const AdmissionSpec&) const = default;
};

// What a row with a score keeps beside its rule's state: shows and clicks.
inline constexpr size_t kScoreFloats = 2;

enum class Storage : uint8_t { kFloat32 = 1, kFloat16 = 2, kBFloat16 = 3 };

enum class TableKind : uint8_t { kSparse = 1, kDense = 2 };

// A run of consecutive elements of a dense parameter; one server holds it whole.
struct BlockSpec {
  uint32_t id = 0;  // the block's place among all blocks of the parameter
  uint64_t offset = 0;
  uint64_t length = 0;

  bool operator==(const BlockSpec&) const = default;
};

struct TableSpec {
  std::string name;
  TableKind kind = TableKind::kSparse;
  Storage storage = Storage::kFloat32;
  bool allow_nonfinite = false;
  uint32_t dim = 0;             // sparse: floats a row
  std::vector<uint64_t> shape;  // dense: the whole parameter's sides; none: a single number
  uint64_t seed = 0;
  RuleSpec rule;
  InitSpec init;
  AdmissionSpec admission;        // dense: all
  std::vector<BlockSpec> blocks;  // dense: those of this server

  // Dense: elements of the whole parameter. Requires: validate() passed, or the product is known to fit.
  uint64_t size() const;

  bool operator==(const TableSpec&) const = default;
};

inline constexpr uint32_t kMaxDim = 65536;
inline constexpr uint64_t kMaxCount = 1ull << 24;  // what a float counts one by one
inline constexpr uint64_t kMaxWaiting = 1ull << 32;
inline constexpr uint64_t kMaxDenseElements = 1ull << 40;
inline constexpr size_t kMaxSides = 64;  // as many as torch takes
inline constexpr size_t kMaxNameBytes = 255;

// Refuses what no table can be made of; the message names the field.
Result<void> validate(const RuleSpec& rule);
Result<void> validate(const InitSpec& init);
Result<void> validate(const AdmissionSpec& admission);
Result<void> validate(const TableSpec& spec);

// What differs between two specs of one table, for people: "dim is 16 there and 8 here". Empty when they describe the
// same table. The learning rate is not compared: it travels with each push, and changes as training goes on.
std::string difference(const TableSpec& there, const TableSpec& here);

const char* to_string(RuleKind kind);
const char* to_string(InitKind kind);
const char* to_string(AdmissionKind kind);
const char* to_string(Storage storage);
const char* to_string(TableKind kind);
const char* to_string(StepSource steps);

}  // namespace flota
