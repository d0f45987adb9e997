// How a server becomes again what it was: records of a snapshot, then those of the logs after it.
#include <algorithm>
#include <array>
#include <cstring>

#include "server/service.h"
#include "wire/fields.h"

namespace flota {

Result<void> Service::replay(RecordKind kind, Payload payload, uint64_t most_bytes) {
  switch (kind) {
    case RecordKind::kRequest:
      return replay_request(payload);
    case RecordKind::kHead:
      return replay_head(payload);
    case RecordKind::kTable:
      return replay_table(payload);
    case RecordKind::kRows:
      return replay_rows(payload, most_bytes);
    case RecordKind::kParameter:
      return replay_parameter(payload);
    case RecordKind::kHistory:
      return replay_history(payload);
    case RecordKind::kChanges:
      return replay_changes(payload);
    case RecordKind::kLedger:
      return ledger_.replay(kind, payload);
    case RecordKind::kFinish:
    case RecordKind::kSteps:
      return steps_.replay(kind, payload, [this](uint64_t id) { return registry_.find(id); });
    case RecordKind::kFinishes:
      return steps_.finishes().replay(kind, payload);
    case RecordKind::kGathering:
    case RecordKind::kBarriers:
      return barriers_.replay(kind, payload);
    case RecordKind::kRejoin:
    case RecordKind::kRejoins:
      return replay_rejoin(kind, payload);
    case RecordKind::kAdvance:
    case RecordKind::kClocks:
      return clocks_.replay(kind, payload);
    case RecordKind::kLease:
    case RecordKind::kLeases:
      return leases_.replay(kind, payload);
    case RecordKind::kLetter:
    case RecordKind::kTaken:
    case RecordKind::kMailboxes:
      return mailboxes_.replay(kind, payload);
    case RecordKind::kTeam:
    case RecordKind::kTeams:
      return replay_team(kind, payload);
    default:
      return malformed("unknown kind of record " + std::to_string(static_cast<int>(kind)));
  }
}

// What was refused when it came is not in the log, but for these: a table that could not be made, and a push of a
// worker whose next incarnation came while it was on its way.
Result<void> Service::replay_request(Payload payload) {
  Reader in(payload);
  const auto kind = static_cast<MessageKind>(in.get<uint64_t>());
  if (!in.ok()) return malformed("a request without a kind");
  const Payload message = payload.subspan(sizeof(uint64_t));
  auto unless = [](const Result<Writer>& status, std::initializer_list<ErrorCode> passed) -> Result<void> {
    if (status) return {};
    for (const ErrorCode code : passed) {
      if (status.error().code == code) return {};
    }
    return malformed("a request that was done once cannot be done again: " + status.error().message);
  };
  switch (kind) {
    case MessageKind::kCreateTable:
      return replay_create(message);
    case MessageKind::kPull:
      return replay_made(message);
    case MessageKind::kPush:
      return unless(push(message), {ErrorCode::kStaleEpoch});
    case MessageKind::kPushDense:
      return unless(push_dense(message), {ErrorCode::kStaleEpoch});
    case MessageKind::kImport:
      return unless(import_rows(message), {});
    case MessageKind::kEra:
      return unless(era(message), {});
    case MessageKind::kShrink:
      return unless(shrink(message), {ErrorCode::kStaleEpoch});
    default:
      return malformed(std::string("a ") + to_string(kind) + " changes nothing");
  }
}

// Whatever the largest message is now.
Result<void> Service::replay_create(Payload payload) {
  FLOTA_ASSIGN(auto message, CreateTable::decode(payload));
  bool created = false;
  const auto status = registry_.create(message.spec, &created);
  if (status) return {};
  const ErrorCode code = status.error().code;
  const bool refused =
      code == ErrorCode::kTableMismatch || code == ErrorCode::kInvalidArgument || code == ErrorCode::kBusy;
  return refused ? Result<void>() : status.error();
}

Result<void> Service::replay_made(Payload payload) {
  FLOTA_ASSIGN(auto message, Pull::decode(payload));
  FLOTA_ASSIGN(auto table, registry_.find(message.table));
  if (!table->sparse || table->spec.dim != message.dim) return malformed("rows of another shape than their table's");
  // Their values are wanted by nobody now.
  const size_t step = std::max<size_t>(1, kMaxDim / message.dim);
  std::vector<float> rows(step * message.dim);
  for (size_t i = 0; i < message.keys.size(); i += step) {
    const auto keys = message.keys.subspan(i, std::min(step, message.keys.size() - i));
    table->sparse->pull(keys, std::span(rows).first(keys.size() * message.dim), Missing::kCreate);
  }
  return {};
}

Result<void> Service::replay_head(Payload payload) {
  Reader in(payload);
  checkpoint_ = in.get<uint64_t>();
  checkpoint_step_ = in.get<uint64_t>();
  return in.finish("a snapshot's head");
}

Result<void> Service::replay_table(Payload payload) {
  Reader in(payload);
  std::array<uint64_t, 7> values{};
  for (uint64_t& value : values) value = in.get<uint64_t>();
  if (!in.ok()) return malformed("a table's record is shorter than its counters");
  FLOTA_ASSIGN(auto message, CreateTable::decode(payload.subspan(values.size() * sizeof(uint64_t))));
  bool created = false;
  FLOTA_ASSIGN(auto table, registry_.create(message.spec, &created));
  if (!created) return malformed("there are two tables '" + message.spec.name + "'");
  table->restored = values[0] != 0;
  size_t at = 1;
  for (auto* counter :
       {&table->pushes, &table->rows_pushed, &table->staleness_count, &table->staleness_sum, &table->staleness_max}) {
    counter->store(values[at++]);
  }
  if (table->dense) table->dense->set_imports(values[at]);
  return {};
}

Result<uint64_t> Service::rows_part(Payload payload) const {
  Reader in(payload);
  FLOTA_ASSIGN(auto table, registry_.find(in.get<uint64_t>()));
  if (!table->sparse) return 0;
  FLOTA_ASSIGN(const uint64_t part, SparseTable::image_part(payload.subspan(sizeof(uint64_t))));
  return part;
}

Result<void> Service::replay_rows(Payload payload, uint64_t most_bytes) {
  Reader in(payload);
  FLOTA_ASSIGN(auto table, registry_.find(in.get<uint64_t>()));
  if (table->sparse) return table->sparse->load_image(payload.subspan(sizeof(uint64_t)), most_bytes);
  const auto place = in.get<uint64_t>();
  DenseTable::BlockImage image;
  image.updates = in.get<uint64_t>();
  image.last_seen = in.get<uint64_t>();
  image.written = in.get<uint64_t>() != 0;
  if (!in.ok() || place >= table->dense->block_count()) return malformed("a block that the table does not have");
  const auto values = payload.subspan(payload.size() - in.left());
  const size_t weights = std::min(values.size(), table->dense->image(place).weights.size());
  image.weights = values.first(weights);
  image.state = values.subspan(weights);
  return table->dense->load_image(place, image);
}

Result<void> Service::replay_parameter(Payload payload) {
  Reader in(payload);
  WholeParameter parameter;
  parameter.updates = in.get<uint64_t>();
  parameter.last_seen = in.get<uint64_t>();
  const auto weights = in.get<uint64_t>();
  const auto state = in.get<uint64_t>();
  const auto spec = in.get_array<std::byte>(in.get<uint64_t>());
  if (weights > in.left() || state > in.left()) return malformed("a parameter of another size than it says");
  const auto floats = in.get_array<float>(weights + state);
  FLOTA_TRY(in.finish("a parameter"));
  FLOTA_ASSIGN(auto message, CreateTable::decode(spec));
  parameter.spec = std::move(message.spec);
  parameter.weights.assign(floats.begin(), floats.begin() + static_cast<ptrdiff_t>(weights));
  parameter.state.assign(floats.begin() + static_cast<ptrdiff_t>(weights), floats.end());
  return restore_parameter(std::move(parameter));
}

Result<void> Service::replay_changes(Payload payload) {
  FLOTA_ASSIGN(const uint64_t id, Changes::table_of(payload));
  FLOTA_ASSIGN(auto table, registry_.find(id));
  return table->changes.replay(RecordKind::kChanges, payload);
}

Result<void> Service::replay_history(Payload payload) {
  Reader in(payload);
  FLOTA_ASSIGN(auto table, registry_.find(in.get<uint64_t>()));
  const auto last_removed = in.get<uint64_t>();
  const auto mark_count = in.get<uint32_t>();
  const auto shrink_count = in.get<uint32_t>();
  const auto marks = in.get_array<uint64_t>(mark_count);
  const auto shrinks = in.get_array<uint64_t>(shrink_count);
  FLOTA_TRY(in.finish("a table's history"));
  if (marks.size() > EraReply::kMaxMarks || shrinks.size() > EraReply::kMaxShrinks) {
    return malformed("a longer history than tables have");
  }
  std::lock_guard lock(table->history.mutex);
  table->history.last_removed = last_removed;
  table->history.marks.assign(marks.begin(), marks.end());
  table->history.shrinks.assign(shrinks.begin(), shrinks.end());
  return {};
}

}  // namespace flota
