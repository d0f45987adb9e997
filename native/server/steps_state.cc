// How steps outlive the process: finishes as they came, and in a snapshot each group with what it holds.
#include <cmath>

#include "server/steps.h"

namespace flota {
namespace {

// What a record of a snapshot begins with.
enum class Part : uint64_t {
  kGroup = 1,
  kPush = 2,  // of a member of a group that came before
  kRows = 3,  // which its last step has changed, or some of them
};

constexpr size_t kMostKeys = size_t{1} << 17;  // a megabyte of them a record

constexpr uint32_t kBegun = 1;
constexpr uint32_t kHasRows = 2;

constexpr uint32_t kFinished = 1;
constexpr uint32_t kLeaves = 2;
constexpr uint32_t kLeft = 4;
constexpr uint32_t kEver = 8;

// What the record of a group begins with; its members follow.
struct GroupPart {
  Part part = Part::kGroup;
  uint64_t group = 0;
  uint64_t step = 0;
  uint32_t world = 0;
  uint32_t flags = 0;
  uint64_t members = 0;
};
struct MemberPart {
  uint32_t rank = 0;
  uint32_t flags = 0;
  uint64_t last = 0;
  uint64_t count = 0;
  double samples = 0;
};

// What the record of rows begins with; their keys follow.
struct RowsPart {
  Part part = Part::kRows;
  uint64_t group = 0;
  uint64_t table = 0;
  uint64_t keys = 0;
};

// What the record of a push begins with; its columns follow.
struct PushPart {
  Part part = Part::kPush;
  uint64_t group = 0;
  uint64_t table = 0;
  uint32_t rank = 0;
  float lr = 0;
  float scale = 0;
  uint32_t incarnation = 0;
  uint64_t keys = 0;
  uint64_t places = 0;
  uint64_t values = 0;
  uint64_t shows = 0;
  uint64_t clicks = 0;
};

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// What brings values to a multiple of eight bytes.
std::span<const std::byte> padding_of(const std::vector<float>& values) {
  static constexpr std::byte kZeros[8] = {};
  return std::span(kZeros).first(values.size() % 2 * sizeof(float));
}

Result<void> save_push(Journal& out, uint64_t group, uint32_t rank, const HeldPush& push) {
  PushPart head;
  head.group = group;
  head.table = Registry::id_of(push.table->spec.name);
  head.rank = rank;
  head.lr = push.lr;
  head.scale = push.scale;
  head.incarnation = push.incarnation;
  head.keys = push.keys.size();
  head.places = push.places.size();
  head.values = push.values.size();
  head.shows = push.shows.size();
  head.clicks = push.clicks.size();
  return out.write(RecordKind::kSteps, {std::as_bytes(std::span(&head, 1)), bytes_of(push.keys), bytes_of(push.places),
                                        bytes_of(push.values), padding_of(push.values), bytes_of(push.shows),
                                        padding_of(push.shows), bytes_of(push.clicks), padding_of(push.clicks)});
}

Result<void> save_rows(Journal& out, uint64_t group, const ChangedRows& rows) {
  for (size_t at = 0; at == 0 || at < rows.keys.size(); at += kMostKeys) {
    const auto keys = std::span(rows.keys).subspan(at, std::min(kMostKeys, rows.keys.size() - at));
    const RowsPart head{Part::kRows, group, rows.table, keys.size()};
    FLOTA_TRY(out.write(RecordKind::kSteps, {std::as_bytes(std::span(&head, 1)), std::as_bytes(keys)}));
  }
  return {};
}

// Whether a push is one that its table could have been given.
Result<void> check_push(const HeldPush& push) {
  const HostedTable& table = *push.table;
  uint64_t values = push.keys.size() * table.spec.dim;
  if (table.dense) {
    values = 0;
    size_t next = 0;
    for (size_t place : push.places) {
      if (place < next || place >= table.dense->block_count()) return malformed("a push to a block that is not there");
      values += table.dense->block(place).length;
      next = place + 1;
    }
  }
  const bool of_its_kind = table.dense ? push.keys.empty() : push.places.empty();
  const auto fits = [&](const std::vector<float>& column) {
    return column.empty() || (table.sparse && column.size() == push.keys.size());
  };
  if (of_its_kind && push.values.size() == values && fits(push.shows) && fits(push.clicks)) return {};
  return malformed("a push that does not fit table '" + table.spec.name + "'");
}

template <class T>
std::vector<T> get_vector(Reader& in, uint64_t count) {
  const auto values = in.get_array<T>(count);
  return {values.begin(), values.end()};
}

}  // namespace

Freeze Steps::freeze() {
  Freeze frozen;
  frozen.locks.emplace_back(mutex_);
  for (const auto& [id, group] : groups_) frozen.locks.emplace_back(group->mutex);
  return frozen;
}

Result<void> Steps::save(Journal& out) const {
  for (const auto& [id, group] : groups_) {
    if (group->failed) {
      return Error{ErrorCode::kSystem, "a step could not be applied whole: the tables are no state to save"};
    }
    // One that was asked for, but refused everything.
    if (group->begun) FLOTA_TRY(save_group(out, id, *group));
  }
  return {};
}

Result<void> Steps::save_group(Journal& out, uint64_t id, const Group& group) {
  const uint32_t flags = (group.begun ? kBegun : 0) | (group.rows ? kHasRows : 0);
  Writer record;
  record.put(GroupPart{Part::kGroup, id, group.step, group.world, flags, group.ranks.size()});
  for (const auto& [rank, member] : group.ranks) {
    const uint32_t what = (member.finished ? kFinished : 0) | (member.leaves ? kLeaves : 0) |
                          (member.left ? kLeft : 0) | (member.ever ? kEver : 0);
    record.put(MemberPart{rank, what, member.last, member.count, member.samples});
  }
  FLOTA_TRY(write_record(&out, RecordKind::kSteps, record));
  if (group.rows) {
    for (const ChangedRows& rows : *group.rows) FLOTA_TRY(save_rows(out, id, rows));
  }
  for (const auto& [rank, member] : group.ranks) {
    for (const HeldPush& push : member.pushes) FLOTA_TRY(save_push(out, id, rank, push));
  }
  return {};
}

Result<void> Steps::replay(RecordKind kind, std::span<const std::byte> payload, const FindTable& find) {
  const auto apply = [&]() -> Result<void> {
    if (kind == RecordKind::kFinish) return replay_finish(payload);
    if (kind != RecordKind::kSteps) return unknown_record(kind);
    Reader in(payload);
    switch (in.get<Part>()) {
      case Part::kGroup:
        return replay_group(payload);
      case Part::kPush:
        return replay_push(payload, find);
      case Part::kRows:
        return replay_rows(payload);
    }
    return malformed("it tells of nothing that is known");
  };
  return replayed(apply(), "steps");
}

Result<void> Steps::replay_finish(std::span<const std::byte> payload) {
  FLOTA_ASSIGN(auto message, FinishStep::decode(payload));
  FLOTA_ASSIGN(auto entered, enter(hash_name(message.group)));
  Group& group = *entered.group;
  if (applied(group, message) || noted(group, message)) return {};
  FLOTA_TRY(check_finish(group, message));
  note(group, message);
  return {};
}

Result<void> Steps::replay_group(std::span<const std::byte> payload) {
  Reader in(payload);
  const auto head = in.get<GroupPart>();
  auto group = std::make_shared<Group>();
  group->step = head.step;
  group->world = head.world;
  group->incarnations = incarnations_;
  group->begun = (head.flags & kBegun) != 0;
  if ((head.flags & kHasRows) != 0) group->rows = std::make_shared<std::vector<ChangedRows>>();
  for (uint64_t i = 0; i < head.members && in.ok(); ++i) {
    const auto part = in.get<MemberPart>();
    Member member;
    member.finished = (part.flags & kFinished) != 0;
    member.leaves = (part.flags & kLeaves) != 0;
    member.left = (part.flags & kLeft) != 0;
    member.ever = (part.flags & kEver) != 0;
    member.last = part.last;
    member.count = part.count;
    member.samples = part.samples;
    if (!std::isfinite(member.samples) || member.samples < 0) return malformed("a worker with less than no samples");
    if (member.count > kMaxStep) return malformed("a worker with more steps than there are");
    if (!group->ranks.emplace(part.rank, std::move(member)).second && in.ok())
      return malformed("a worker stands there twice");
  }
  FLOTA_TRY(in.finish("a group"));
  if (groups_.size() >= kMaxGroups) return malformed("too many groups");
  if (!groups_.emplace(head.group, std::move(group)).second) return malformed("a group stands there twice");
  return {};
}

Result<std::shared_ptr<Steps::Group>> Steps::replayed_group(uint64_t id) const {
  const auto found = groups_.find(id);
  if (found != groups_.end()) return found->second;
  return malformed("it is of a group that is not there");
}

Result<void> Steps::replay_push(std::span<const std::byte> payload, const FindTable& find) {
  Reader in(payload);
  const auto head = in.get<PushPart>();
  HeldPush push;
  push.lr = head.lr;
  push.scale = head.scale;
  push.incarnation = head.incarnation;
  push.keys = get_vector<Key>(in, head.keys);
  push.places = get_vector<size_t>(in, head.places);
  push.values = get_vector<float>(in, head.values);
  push.shows = get_vector<float>(in, head.shows);
  push.clicks = get_vector<float>(in, head.clicks);
  FLOTA_TRY(in.finish("a push"));
  FLOTA_ASSIGN(push.table, find(head.table));
  FLOTA_TRY(check_push(push));
  FLOTA_ASSIGN(auto group, replayed_group(head.group));
  const auto member = group->ranks.find(head.rank);
  if (member == group->ranks.end()) return malformed("it is of a worker that is not there");
  member->second.pushes.push_back(std::move(push));
  return {};
}

Result<void> Steps::replay_rows(std::span<const std::byte> payload) {
  Reader in(payload);
  const auto head = in.get<RowsPart>();
  const auto keys = in.get_array<Key>(head.keys);
  FLOTA_TRY(in.finish("changed rows"));
  FLOTA_ASSIGN(auto group, replayed_group(head.group));
  if (!group->rows) return malformed("it is of a group that has applied no step");
  std::vector<ChangedRows>& rows = *group->rows;
  if (rows.empty() || rows.back().table != head.table) rows.push_back({head.table, {}});
  rows.back().keys.insert(rows.back().keys.end(), keys.begin(), keys.end());
  return {};
}

}  // namespace flota
