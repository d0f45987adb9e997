#include "wire/messages.h"

#include <algorithm>
#include <cmath>

#include "wire/fields.h"

namespace flota {
namespace {

void encode_rule(const RuleSpec& rule, Writer& out) {
  out.put(static_cast<uint8_t>(rule.kind));
  out.put(static_cast<uint8_t>(rule.steps));
  out.put(static_cast<uint8_t>(rule.nesterov));
  out.put(static_cast<uint8_t>(rule.centered));
  out.put(static_cast<uint8_t>(rule.amsgrad));
  out.pad();
  for (double value : {rule.lr, rule.weight_decay, rule.momentum, rule.dampening, rule.beta1, rule.beta2, rule.epsilon,
                       rule.alpha, rule.lr_decay, rule.initial_accumulator, rule.l1, rule.l2, rule.lr_power}) {
    out.put(value);
  }
}

Result<RuleSpec> decode_rule(Reader& in) {
  RuleSpec rule;
  FLOTA_ASSIGN(rule.kind, get_enum(in, RuleKind::kLazyAdam, "rule"));
  FLOTA_ASSIGN(rule.steps, get_enum(in, StepSource::kPush, "step source"));
  FLOTA_ASSIGN(rule.nesterov, get_bool(in, "nesterov"));
  FLOTA_ASSIGN(rule.centered, get_bool(in, "centered"));
  FLOTA_ASSIGN(rule.amsgrad, get_bool(in, "amsgrad"));
  in.get_array<uint8_t>(3);
  for (double* value :
       {&rule.lr, &rule.weight_decay, &rule.momentum, &rule.dampening, &rule.beta1, &rule.beta2, &rule.epsilon,
        &rule.alpha, &rule.lr_decay, &rule.initial_accumulator, &rule.l1, &rule.l2, &rule.lr_power}) {
    *value = in.get<double>();
  }
  return rule;
}

void encode_admission(const AdmissionSpec& admission, Writer& out) {
  out.put(static_cast<uint8_t>(admission.kind));
  out.pad();
  for (double value : {admission.threshold, admission.probability, admission.show_weight, admission.click_weight}) {
    out.put(value);
  }
  out.put(admission.waiting);
}

Result<AdmissionSpec> decode_admission(Reader& in) {
  AdmissionSpec admission;
  FLOTA_ASSIGN(admission.kind, get_enum(in, AdmissionKind::kShowClick, "admission"));
  in.get_array<uint8_t>(7);
  for (double* value :
       {&admission.threshold, &admission.probability, &admission.show_weight, &admission.click_weight}) {
    *value = in.get<double>();
  }
  admission.waiting = in.get<uint64_t>();
  return admission;
}

void encode_spec(const TableSpec& spec, Writer& out) {
  out.put_string(spec.name);
  out.put(static_cast<uint8_t>(spec.kind));
  out.put(static_cast<uint8_t>(spec.storage));
  out.put(static_cast<uint8_t>(spec.allow_nonfinite));
  out.put(static_cast<uint8_t>(spec.init.kind));
  out.put(spec.dim);
  out.put(spec.seed);
  for (double value : {spec.init.a, spec.init.b, spec.init.low, spec.init.high}) out.put(value);
  encode_rule(spec.rule, out);
  encode_admission(spec.admission, out);
  out.put(static_cast<uint64_t>(spec.shape.size()));
  for (uint64_t side : spec.shape) out.put(side);
  out.put(static_cast<uint64_t>(spec.blocks.size()));
  for (const BlockSpec& block : spec.blocks) {
    out.put(uint64_t{block.id});
    out.put(block.offset);
    out.put(block.length);
  }
}

Result<TableSpec> decode_spec(Reader& in) {
  TableSpec spec;
  spec.name = in.get_string(kMaxNameBytes);
  FLOTA_ASSIGN(spec.kind, get_enum(in, TableKind::kDense, "table kind"));
  FLOTA_ASSIGN(spec.storage, get_enum(in, Storage::kBFloat16, "storage"));
  FLOTA_ASSIGN(spec.allow_nonfinite, get_bool(in, "allow_nonfinite"));
  FLOTA_ASSIGN(spec.init.kind, get_enum(in, InitKind::kXavierUniform, "initialiser"));
  spec.dim = in.get<uint32_t>();
  spec.seed = in.get<uint64_t>();
  for (double* value : {&spec.init.a, &spec.init.b, &spec.init.low, &spec.init.high}) *value = in.get<double>();
  FLOTA_ASSIGN(spec.rule, decode_rule(in));
  FLOTA_ASSIGN(spec.admission, decode_admission(in));
  auto sides = in.get<uint64_t>();
  if (sides > kMaxSides) return malformed("a table description has too many sides");
  for (uint64_t i = 0; i < sides; ++i) spec.shape.push_back(in.get<uint64_t>());
  auto blocks = in.get<uint64_t>();
  if (blocks > in.left() / 24) return malformed("a table description is shorter than its fields say");
  for (uint64_t i = 0; i < blocks; ++i) {
    BlockSpec block;
    auto id = in.get<uint64_t>();
    if (id > UINT32_MAX) return malformed("a block's id is out of range");
    block.id = static_cast<uint32_t>(id);
    block.offset = in.get<uint64_t>();
    block.length = in.get<uint64_t>();
    spec.blocks.push_back(block);
  }
  if (!in.ok()) return malformed("a table description is shorter than its fields say");
  FLOTA_TRY(validate(spec));
  return spec;
}

}  // namespace

void CreateTable::encode(Writer& out) const { encode_spec(spec, out); }

Result<CreateTable> CreateTable::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  CreateTable message;
  FLOTA_ASSIGN(message.spec, decode_spec(in));
  FLOTA_TRY(in.finish("a create-table request"));
  return message;
}

void CreateTableReply::encode(Writer& out) const {
  out.put(table);
  out.put(static_cast<uint8_t>(created));
  out.pad();
}

Result<CreateTableReply> CreateTableReply::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  CreateTableReply message;
  message.table = in.get<uint64_t>();
  FLOTA_ASSIGN(message.created, get_bool(in, "created"));
  in.get_array<uint8_t>(7);
  FLOTA_TRY(in.finish("a create-table reply"));
  return message;
}

void DescribeTable::encode(Writer& out) const { out.put_string(name); }

Result<DescribeTable> DescribeTable::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  DescribeTable message{in.get_string(kMaxNameBytes)};
  FLOTA_TRY(in.finish("a describe-table request"));
  return message;
}

void DescribeTableReply::encode(Writer& out) const {
  encode_spec(spec, out);
  out.put(rows);
  out.put(bytes);
}

Result<DescribeTableReply> DescribeTableReply::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  DescribeTableReply message;
  FLOTA_ASSIGN(message.spec, decode_spec(in));
  message.rows = in.get<uint64_t>();
  message.bytes = in.get<uint64_t>();
  FLOTA_TRY(in.finish("a describe-table reply"));
  return message;
}

void PullHead::encode(Writer& out) const {
  out.put(table);
  out.put(count);
  out.put(dim);
  out.put(static_cast<uint8_t>(create));
  out.pad();
}

Result<Pull> Pull::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  Pull message;
  message.table = in.get<uint64_t>();
  message.count = in.get<uint32_t>();
  message.dim = in.get<uint32_t>();
  FLOTA_ASSIGN(message.create, get_bool(in, "create"));
  in.get_array<uint8_t>(7);
  message.keys = in.get_array<Key>(message.count);
  FLOTA_TRY(in.finish("a pull"));
  return message;
}

void RowsHead::encode(Writer& out) const {
  out.put(version);
  out.put(count);
  out.put(dim);
}

Result<RowsHead> RowsHead::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  RowsHead message;
  message.version = in.get<uint64_t>();
  message.count = in.get<uint32_t>();
  message.dim = in.get<uint32_t>();
  if (!in.ok()) return malformed("rows without a head");
  return message;
}

void PushHead::encode(Writer& out) const {
  out.put(table);
  out.put(worker);
  out.put(sequence);
  out.put(oldest);
  out.put(step);
  out.put(group);
  out.put(seen);
  out.put(epoch);
  out.put(rank);
  out.put(lr);
  out.put(scale);
  out.put(count);
  out.put(dim);
  out.put(static_cast<uint8_t>(kind));
  out.put(static_cast<uint8_t>(element));
  out.put(told);
  out.pad();
}

Result<PushHead> PushHead::decode(Reader& in) {
  PushHead head;
  head.table = in.get<uint64_t>();
  head.worker = in.get<uint64_t>();
  head.sequence = in.get<uint64_t>();
  head.oldest = in.get<uint64_t>();
  head.step = in.get<uint64_t>();
  head.group = in.get<uint64_t>();
  head.seen = in.get<uint64_t>();
  head.epoch = in.get<uint32_t>();
  head.rank = in.get<uint32_t>();
  head.lr = in.get<float>();
  head.scale = in.get<float>();
  head.count = in.get<uint32_t>();
  head.dim = in.get<uint32_t>();
  FLOTA_ASSIGN(head.kind, get_enum(in, PushKind::kAssign, "push kind"));
  FLOTA_ASSIGN(head.element, get_enum(in, Storage::kBFloat16, "element type"));
  head.told = in.get<uint8_t>();
  in.get_array<uint8_t>(5);
  if (head.told > 2) return malformed("a push tells more of its keys than is known");
  if (!in.ok()) return malformed("a push is shorter than its fields say");
  if (!std::isfinite(head.lr) || !std::isfinite(head.scale) || head.lr < 0) {
    return invalid("a push's learning rate must be a finite number from 0 on, and its scale finite");
  }
  if (head.group != 0 && head.kind == PushKind::kAssign) {
    return invalid("an assignment belongs to no group of workers");
  }
  if (head.step > kMaxStep) return invalid("a push's step must be up to 2^62");
  if (head.oldest > head.sequence) return malformed("a push that was answered before it was sent");
  return head;
}

Result<Push> Push::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  FLOTA_ASSIGN(PushHead head, PushHead::decode(in));
  if (head.element != Storage::kFloat32) return malformed("rows travel in float32");
  Push message{head, {}, {}, {}, {}};
  message.keys = in.get_array<Key>(message.count);
  message.values = in.get_array<float>(uint64_t{message.count} * message.dim);
  if (head.told > 0) message.shows = in.get_array<float>(message.count);
  if (head.told > 1) message.clicks = in.get_array<float>(message.count);
  FLOTA_TRY(in.finish("a push"));
  const auto is_count = [](float value) { return value >= 0 && value <= static_cast<float>(kMaxCount); };
  if (!std::all_of(message.shows.begin(), message.shows.end(), is_count) ||
      !std::all_of(message.clicks.begin(), message.clicks.end(), is_count)) {
    return invalid("shows and clicks must be from 0 to " + std::to_string(kMaxCount));
  }
  return message;
}

Result<PushDense> PushDense::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  FLOTA_ASSIGN(PushHead head, PushHead::decode(in));
  PushDense message{head, {}, {}};
  message.blocks = in.get_array<uint32_t>(message.count);
  // The blocks' lengths are the table's to know; all that is left are values and their padding.
  message.values = in.get_array<std::byte>(in.left());
  if (message.values.size() % 8 != 0) return malformed("a dense push is not padded");
  FLOTA_TRY(in.finish("a dense push"));
  return message;
}

void PushReply::encode(Writer& out) const {
  out.put(static_cast<uint8_t>(applied));
  out.pad();
}

Result<PushReply> PushReply::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  PushReply message;
  FLOTA_ASSIGN(message.applied, get_bool(in, "applied"));
  in.get_array<uint8_t>(7);
  FLOTA_TRY(in.finish("a push reply"));
  return message;
}

void PullDense::encode(Writer& out) const {
  out.put(table);
  out.put(static_cast<uint64_t>(blocks.size()));
  out.put(known);
  out.put(static_cast<uint8_t>(element));
  out.pad();
  out.put_array(std::span<const uint32_t>(blocks));
}

Result<PullDense> PullDense::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  PullDense message;
  message.table = in.get<uint64_t>();
  auto count = in.get<uint64_t>();
  message.known = in.get<uint64_t>();
  FLOTA_ASSIGN(message.element, get_enum(in, Storage::kBFloat16, "element type"));
  in.get_array<uint8_t>(7);
  auto blocks = in.get_array<uint32_t>(count);
  FLOTA_TRY(in.finish("a dense pull"));
  message.blocks.assign(blocks.begin(), blocks.end());
  return message;
}

void ChangesRequest::encode(Writer& out) const {
  out.put(table);
  out.put(since);
  out.put(page);
  out.put(uint64_t{rank});
}

Result<ChangesRequest> ChangesRequest::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  ChangesRequest message;
  message.table = in.get<uint64_t>();
  message.since = in.get<uint64_t>();
  message.page = in.get<uint64_t>();
  auto rank = in.get<uint64_t>();
  FLOTA_TRY(in.finish("a question for changes"));
  if (rank >= 1u << 20) return invalid("a worker's rank must be below 1,048,576");
  message.rank = static_cast<uint32_t>(rank);
  return message;
}

void ChangesReply::encode(Writer& out) const {
  out.put(version);
  out.put(static_cast<uint8_t>(done));
  out.pad();
  out.put(static_cast<uint64_t>(keys.size()));
  out.put_array(keys);
}

Result<ChangesReply> ChangesReply::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  ChangesReply message;
  message.version = in.get<uint64_t>();
  FLOTA_ASSIGN(message.done, get_bool(in, "done"));
  in.get_array<uint8_t>(7);
  message.keys = in.get_array<Key>(in.get<uint64_t>());
  FLOTA_TRY(in.finish("the answer to a question for changes"));
  return message;
}

void StatisticsReply::encode(Writer& out) const {
  out.put(static_cast<uint64_t>(values.size()));
  for (const Statistic& value : values) {
    out.put_string(value.table);
    out.put_string(value.name);
    out.put(value.value);
  }
}

Result<std::vector<Statistic>> get_statistics(Reader& in) {
  std::vector<Statistic> values;
  const auto count = in.get<uint64_t>();
  for (uint64_t i = 0; i < count && in.ok(); ++i) {
    Statistic value;
    value.table = in.get_string(kMaxNameBytes);
    value.name = in.get_string(kMaxNameBytes);
    value.value = in.get<uint64_t>();
    values.push_back(std::move(value));
  }
  return values;
}

Result<StatisticsReply> StatisticsReply::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  StatisticsReply message;
  FLOTA_ASSIGN(message.values, get_statistics(in));
  FLOTA_TRY(in.finish("a statistics reply"));
  return message;
}

void Export::encode(Writer& out) const {
  out.put(table);
  out.put(cursor);
  out.put(shard);
  out.put(max_rows);
  out.put(since);
  out.put(static_cast<uint8_t>(part));
  out.pad();
}

Result<Export> Export::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  Export message;
  message.table = in.get<uint64_t>();
  message.cursor = in.get<uint64_t>();
  message.shard = in.get<uint32_t>();
  message.max_rows = in.get<uint32_t>();
  message.since = in.get<uint64_t>();
  FLOTA_ASSIGN(message.part, get_enum(in, RowsOf::kRemoved, "part of a table"));
  in.get_array<uint8_t>(7);
  FLOTA_TRY(in.finish("an export"));
  if (message.max_rows == 0) return invalid("an export must ask for at least one row a page");
  return message;
}

void Rows::encode(Writer& out) const {
  out.put(table);
  out.put(next);
  out.put(static_cast<uint64_t>(keys.size()));
  out.put(dim);
  out.put(state_floats);
  out.put(static_cast<uint8_t>(done));
  out.put(static_cast<uint8_t>(part));
  out.pad();
  out.put_array(keys);
  out.put_array(updates);
  out.put_array(last_seen);
  out.put_array(weights);
  out.put_array(state);
}

Result<Rows> Rows::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  Rows message;
  message.table = in.get<uint64_t>();
  message.next = in.get<uint64_t>();
  auto count = in.get<uint64_t>();
  message.dim = in.get<uint32_t>();
  message.state_floats = in.get<uint32_t>();
  FLOTA_ASSIGN(message.done, get_bool(in, "done"));
  FLOTA_ASSIGN(message.part, get_enum(in, RowsOf::kRemoved, "part of a table"));
  in.get_array<uint8_t>(6);
  // Before any multiplication: a count that fits the payload's keys fits everything after it.
  if (count > in.left() / sizeof(Key)) return malformed("rows are shorter than their fields say");
  message.keys = in.get_array<Key>(count);
  message.updates = in.get_array<uint64_t>(count);
  message.last_seen = in.get_array<uint64_t>(count);
  message.weights = in.get_array<float>(count * message.dim);
  message.state = in.get_array<float>(count * message.state_floats);
  FLOTA_TRY(in.finish("rows"));
  return message;
}

void ErrorReply::encode(Writer& out) const {
  out.put(static_cast<uint32_t>(error.code));
  out.put(uint32_t{0});
  out.put_string(std::string_view(error.message).substr(0, kMaxMessageText));
}

Result<ErrorReply> ErrorReply::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  ErrorReply message;
  auto code = in.get<uint32_t>();
  in.get<uint32_t>();
  message.error.message = in.get_string(kMaxMessageText);
  FLOTA_TRY(in.finish("an error reply"));
  if (!is_error_code(code)) return malformed("unknown error code");
  message.error.code = static_cast<ErrorCode>(code);
  return message;
}

}  // namespace flota
