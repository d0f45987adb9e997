#include "common/spec.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>

#include "common/spec_check.h"

namespace flota {
namespace {

constexpr uint32_t bit(RuleKind kind) { return 1u << static_cast<uint32_t>(kind); }

constexpr uint32_t kSgdBit = bit(RuleKind::kSgd), kMomentumBit = bit(RuleKind::kMomentum),
                   kAdagradBit = bit(RuleKind::kAdagrad), kFtrlBit = bit(RuleKind::kFtrl);
constexpr uint32_t kRmsPropBits = bit(RuleKind::kRmsProp) | bit(RuleKind::kPaddleRmsProp);
constexpr uint32_t kAmsgradBits = bit(RuleKind::kAdam) | bit(RuleKind::kAdamW);
constexpr uint32_t kMomentsBits = kAmsgradBits | bit(RuleKind::kLazyAdam) | bit(RuleKind::kAdamax) |
                                  bit(RuleKind::kPaddleAdamax) | bit(RuleKind::kLamb);
constexpr uint32_t kAllBits = kSgdBit | kMomentumBit | kAdagradBit | kRmsPropBits | kMomentsBits | kFtrlBit;

// torch.optim's ranges, less what could only give NaN.
enum class Range { kAny, kNotNegative, kNotPositive, kBelowOne, kUpToOne };

struct Number {
  const char* name;
  double RuleSpec::* field;
  Range range;
  uint32_t users;
};

constexpr Number kNumbers[] = {
    {"lr", &RuleSpec::lr, Range::kNotNegative, kAllBits},
    {"weight_decay", &RuleSpec::weight_decay, Range::kNotNegative, kAllBits & ~kFtrlBit},
    {"momentum", &RuleSpec::momentum, Range::kNotNegative, kMomentumBit | kRmsPropBits},
    {"dampening", &RuleSpec::dampening, Range::kAny, kMomentumBit},
    {"beta1", &RuleSpec::beta1, Range::kBelowOne, kMomentsBits},
    {"beta2", &RuleSpec::beta2, Range::kBelowOne, kMomentsBits},
    {"epsilon", &RuleSpec::epsilon, Range::kNotNegative, kAdagradBit | kRmsPropBits | kMomentsBits},
    {"alpha", &RuleSpec::alpha, Range::kUpToOne, kRmsPropBits},
    {"lr_decay", &RuleSpec::lr_decay, Range::kNotNegative, kAdagradBit},
    {"initial_accumulator", &RuleSpec::initial_accumulator, Range::kNotNegative, kAdagradBit | kFtrlBit},
    {"l1", &RuleSpec::l1, Range::kNotNegative, kFtrlBit},
    {"l2", &RuleSpec::l2, Range::kNotNegative, kFtrlBit},
    {"lr_power", &RuleSpec::lr_power, Range::kNotPositive, kFtrlBit},
};

struct Flag {
  const char* name;
  bool RuleSpec::* field;
  uint32_t users;
};

constexpr Flag kFlags[] = {
    {"nesterov", &RuleSpec::nesterov, kMomentumBit},
    {"centered", &RuleSpec::centered, kRmsPropBits},
    {"amsgrad", &RuleSpec::amsgrad, kAmsgradBits},
};

constexpr const char* kRuleNames[] = {kUnknown, "SGD",  "Momentum", "Adagrad",       "RMSProp",      "Adam",    "AdamW",
                                      "Adamax", "Lamb", "FTRL",     "PaddleRMSProp", "PaddleAdamax", "LazyAdam"};
constexpr const char* kInitNames[] = {kUnknown, "constant", "uniform", "normal", "truncated normal", "Xavier uniform"};
constexpr const char* kStorageNames[] = {kUnknown, "float32", "float16", "bfloat16"};
constexpr const char* kTableNames[] = {kUnknown, "sparse", "dense"};
constexpr const char* kStepNames[] = {kUnknown, "row", "push"};

// The wire carries enumerators as numbers, so that any number can arrive here.
template <class Enum, size_t kCount>
const char* name_of(const char* const (&names)[kCount], Enum value) {
  const auto place = static_cast<size_t>(value);
  return place < kCount ? names[place] : kUnknown;
}

const char* broken_range(Range range, double value) {
  switch (range) {
    case Range::kAny:
      return nullptr;
    case Range::kNotNegative:
      return value >= 0 ? nullptr : "it must not be negative";
    case Range::kNotPositive:
      return value <= 0 ? nullptr : "it must not be positive";
    case Range::kBelowOne:
      return value >= 0 && value < 1 ? nullptr : "it must be at least 0 and below 1";
    case Range::kUpToOne:
      return value >= 0 && value <= 1 ? nullptr : "it must be from 0 to 1";
  }
  return nullptr;
}

Result<void> check_number(const RuleSpec& rule, const Number& number) {
  const double value = rule.*number.field;
  FLOTA_TRY(check_finite(number.name, value));
  if (!(number.users & bit(rule.kind))) {
    if (value == 0) return {};
    return invalid(std::string(to_string(rule.kind)) + " does not use " + number.name);
  }
  if (const char* broken = broken_range(number.range, value)) {
    return invalid(std::string(number.name) + " is " + text(value) + ": " + broken);
  }
  return {};
}

Result<void> check_flag(const RuleSpec& rule, const Flag& flag) {
  if (!(rule.*flag.field) || (flag.users & bit(rule.kind))) return {};
  return invalid(std::string(to_string(rule.kind)) + " does not use " + flag.name);
}

// Names become paths of checkpoints, which must stay inside their folder.
Result<void> check_path_parts(std::string_view name) {
  for (size_t start = 0; start <= name.size();) {
    const size_t slash = std::min(name.find('/', start), name.size());
    const std::string_view part = name.substr(start, slash - start);
    if (part.empty() || part == "." || part == "..") {
      return invalid("a table's name has a part between slashes that is empty, . or ..");
    }
    start = slash + 1;
  }
  return {};
}

Result<void> check_name(const std::string& name) {
  if (name.empty()) return invalid("a table needs a name");
  if (name.size() > kMaxNameBytes) {
    return invalid("a table's name has " + std::to_string(name.size()) + " bytes: at most 255 are allowed");
  }
  for (const char c : name) {
    const bool letter_or_digit = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter_or_digit || std::string_view("._-/:@").find(c) != std::string_view::npos) continue;
    // Names go into messages, logs and file names: the refused byte is shown by its number.
    return invalid("a table's name contains byte " + std::to_string(static_cast<unsigned char>(c)) +
                   ": letters, digits and . _ - / : @ are allowed");
  }
  return check_path_parts(name);
}

Result<void> check_sparse(const TableSpec& spec) {
  if (spec.dim < 1 || spec.dim > kMaxDim) {
    return invalid("dim is " + std::to_string(spec.dim) + ": it must be from 1 to " + std::to_string(kMaxDim));
  }
  if (!spec.shape.empty() || !spec.blocks.empty()) {
    return invalid("a sparse table has a dim, but no shape and no blocks");
  }
  if (spec.rule.kind == RuleKind::kLamb) {
    return invalid("Lamb is for dense tables only: its trust ratio belongs to a whole parameter");
  }
  return {};
}

std::string describe(const std::vector<uint64_t>& shape) {
  std::string out = "[";
  for (uint64_t side : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(side);
  return out + "]";
}

Result<void> check_shape(const std::vector<uint64_t>& shape) {
  if (shape.size() > kMaxSides) {
    return invalid("a shape of " + std::to_string(shape.size()) + " sides; at most " + std::to_string(kMaxSides) +
                   " are possible");
  }
  uint64_t size = 1;
  for (uint64_t side : shape) {
    if (side == 0) return invalid("the shape " + describe(shape) + " has no elements");
    if (side > kMaxDenseElements / size) {
      return invalid("the shape " + describe(shape) + " has more than the " + std::to_string(kMaxDenseElements) +
                     " elements a parameter may have");
    }
    size *= side;
  }
  return {};
}

Result<void> check_dense(const TableSpec& spec) {
  if (spec.dim != 0) return invalid("a dense table has a shape, but no dim");
  if (spec.admission.kind != AdmissionKind::kAll) return invalid("a dense table has no keys to admit");
  FLOTA_TRY(check_shape(spec.shape));
  const uint64_t size = spec.size();
  const BlockSpec* previous = nullptr;
  for (const BlockSpec& block : spec.blocks) {
    const std::string which = "block " + std::to_string(block.id);
    if (block.length == 0) return invalid(which + " is empty");
    if (block.offset > size || block.length > size - block.offset) {
      return invalid(which + " reaches beyond the parameter's " + std::to_string(size) + " elements");
    }
    if (previous && (block.id <= previous->id || block.offset < previous->offset + previous->length)) {
      return invalid(which + " overlaps block " + std::to_string(previous->id) + " or is out of order");
    }
    previous = &block;
  }
  const bool cut = !spec.blocks.empty() && spec.blocks.front().length != size;
  if (spec.rule.kind == RuleKind::kLamb && cut) {
    return invalid("Lamb needs its parameter in one block: its trust ratio belongs to a whole parameter");
  }
  return {};
}

void note(std::string& out, const std::string& what, const std::string& there, const std::string& here) {
  if (there == here) return;
  if (!out.empty()) out += "; ";
  out += what + " is " + there + " there and " + here + " here";
}

std::string describe(const InitSpec& init) {
  std::string out = to_string(init.kind);
  for (const double value : {init.a, init.b, init.low, init.high}) out += std::string(" ").append(text(value));
  return out;
}

std::string describe(const std::vector<BlockSpec>& blocks) {
  std::string out = "blocks";
  for (const BlockSpec& block : blocks) {
    out += ' ';
    out += std::to_string(block.id) + ":" + std::to_string(block.offset) + "+" + std::to_string(block.length);
  }
  return out;
}

}  // namespace

const char* to_string(RuleKind kind) { return name_of(kRuleNames, kind); }
const char* to_string(InitKind kind) { return name_of(kInitNames, kind); }
const char* to_string(Storage storage) { return name_of(kStorageNames, storage); }
const char* to_string(TableKind kind) { return name_of(kTableNames, kind); }
const char* to_string(StepSource steps) { return name_of(kStepNames, steps); }

Result<void> validate(const RuleSpec& rule) {
  FLOTA_TRY(check_known("rule", rule.kind));
  FLOTA_TRY(check_known("step source", rule.steps));
  for (const Number& number : kNumbers) FLOTA_TRY(check_number(rule, number));
  for (const Flag& flag : kFlags) FLOTA_TRY(check_flag(rule, flag));
  if (rule.steps == StepSource::kPush && !((kMomentsBits | kAdagradBit) & bit(rule.kind))) {
    return invalid(std::string(to_string(rule.kind)) + " counts no steps: steps must be row");
  }
  if (rule.kind == RuleKind::kMomentum && rule.momentum == 0) {
    return invalid("momentum is 0: Momentum needs it above 0; SGD does without");
  }
  if (rule.nesterov && rule.dampening != 0) return invalid("nesterov needs dampening 0");
  return {};
}

uint64_t TableSpec::size() const {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
}

Result<void> validate(const TableSpec& spec) {
  FLOTA_TRY(check_name(spec.name));
  FLOTA_TRY(check_known("table kind", spec.kind));
  FLOTA_TRY(check_known("storage", spec.storage));
  FLOTA_TRY(validate(spec.rule));
  FLOTA_TRY(validate(spec.init));
  FLOTA_TRY(validate(spec.admission));
  return spec.kind == TableKind::kSparse ? check_sparse(spec) : check_dense(spec);
}

std::string difference(const TableSpec& there, const TableSpec& here) {
  std::string out;
  note(out, "name", there.name, here.name);
  note(out, "kind", to_string(there.kind), to_string(here.kind));
  note(out, "storage", to_string(there.storage), to_string(here.storage));
  note(out, "allow_nonfinite", there.allow_nonfinite ? "true" : "false", here.allow_nonfinite ? "true" : "false");
  note(out, "dim", std::to_string(there.dim), std::to_string(here.dim));
  note(out, "shape", describe(there.shape), describe(here.shape));
  note(out, "seed", std::to_string(there.seed), std::to_string(here.seed));
  note(out, "rule", to_string(there.rule.kind), to_string(here.rule.kind));
  note(out, "step source", to_string(there.rule.steps), to_string(here.rule.steps));
  for (const Number& number : kNumbers) {
    if (number.field == &RuleSpec::lr) continue;
    note(out, number.name, text(there.rule.*number.field), text(here.rule.*number.field));
  }
  for (const Flag& flag : kFlags) {
    note(out, flag.name, there.rule.*flag.field ? "true" : "false", here.rule.*flag.field ? "true" : "false");
  }
  note(out, "initialiser", describe(there.init), describe(here.init));
  note(out, "admission", describe(there.admission), describe(here.admission));
  note(out, "layout", describe(there.blocks), describe(here.blocks));
  return out;
}

}  // namespace flota
