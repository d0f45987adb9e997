// How leases outlive the process: what each question has changed, and in a snapshot all of it.
#include <algorithm>

#include "common/spec.h"
#include "server/leases.h"

namespace flota {
namespace {

// What a record of a snapshot begins with.
enum class Part : uint64_t {
  kHead = 1,
  kWorker = 2,
  kPass = 3,
  kEpoch = 4,  // of a pass that came before
};

struct HeadPart {
  Part part = Part::kHead;
  uint64_t opened = 0;
  uint64_t granted = 0;
  uint64_t expired = 0;
};
// Its grants follow, each with the name of its pass.
struct WorkerPart {
  Part part = Part::kWorker;
  uint64_t rank = 0;
  uint64_t incarnation = 0;
  uint64_t grants = 0;
};
struct GrantPart {
  uint64_t epoch = 0;
  uint64_t call = 0;
  uint64_t shard = 0;
};
// Its name follows.
struct PassPart {
  Part part = Part::kPass;
  uint64_t over_below = 0;
  uint64_t opened = 0;
};
// The pass's name, the runs of done shards, the samples of those that were begun, and the leases follow.
struct EpochPart {
  Part part = Part::kEpoch;
  uint64_t epoch = 0;
  uint64_t shards = 0;
  uint64_t runs = 0;
  uint64_t begun = 0;
  uint64_t leases = 0;
};
struct LeasePart {
  uint64_t shard = 0;
  uint64_t rank = 0;
  uint64_t call = 0;
  uint64_t ttl_ms = 0;
};

// What the record of a change begins with; the shards and the question follow.
struct ChangePart {
  uint64_t change = 0;
  uint64_t shards = 0;
};

}  // namespace

Result<void> Leases::write(Change change, const LeaseRequest& message, std::span<const uint64_t> shards) {
  if (journal_ == nullptr) return {};
  LeaseRequest question = message;
  if (change != Change::kTold) question.progress.clear();
  Writer record;
  record.put(ChangePart{static_cast<uint64_t>(change), shards.size()});
  record.put_array(shards);
  question.encode(record);
  return write_record(journal_, RecordKind::kLease, record);
}

Freeze Leases::freeze() {
  Freeze frozen;
  frozen.locks.emplace_back(mutex_);
  return frozen;
}

Result<void> Leases::save(Journal& out) const {
  Writer head;
  head.put(HeadPart{Part::kHead, opened_, counts_.granted, counts_.expired});
  FLOTA_TRY(write_record(&out, RecordKind::kLeases, head));
  for (const auto& [rank, worker] : workers_) FLOTA_TRY(save_worker(out, rank, worker));
  for (const auto& [name, pass] : passes_) {
    Writer record;
    record.put(PassPart{Part::kPass, pass.over_below, pass.opened});
    record.put_string(name);
    FLOTA_TRY(write_record(&out, RecordKind::kLeases, record));
    for (const auto& [number, epoch] : pass.open) FLOTA_TRY(save_epoch(out, name, number, *epoch));
  }
  return {};
}

Result<void> Leases::save_worker(Journal& out, uint32_t rank, const Worker& worker) const {
  Writer record;
  record.put(WorkerPart{Part::kWorker, rank, worker.incarnation, worker.grants.size()});
  for (const Grant& grant : worker.grants) {
    record.put(GrantPart{grant.epoch, grant.call, grant.shard});
    record.put_string(grant.pass);
  }
  return write_record(&out, RecordKind::kLeases, record);
}

Result<void> Leases::save_epoch(Journal& out, const std::string& pass, uint64_t number, const Epoch& epoch) {
  const std::vector<ShardRun> runs = epoch.done_runs();
  std::vector<ShardSamples> begun;
  for (const auto& [shard, samples] : epoch.samples) begun.push_back({shard, samples});
  std::vector<LeasePart> leases;
  for (const auto& [shard, lease] : epoch.leases) leases.push_back({shard, lease.rank, lease.call, lease.ttl_ms});
  Writer record;
  record.put(EpochPart{Part::kEpoch, number, epoch.done.size(), runs.size(), begun.size(), leases.size()});
  record.put_string(pass);
  record.put_array(std::span<const ShardRun>(runs));
  record.put_array(std::span<const ShardSamples>(begun));
  record.put_array(std::span<const LeasePart>(leases));
  return write_record(&out, RecordKind::kLeases, record);
}

Result<void> Leases::replay(RecordKind kind, std::span<const std::byte> payload) {
  std::lock_guard lock(mutex_);
  replayed_ = true;
  const auto apply = [&]() -> Result<void> {
    if (kind == RecordKind::kLease) return replay_change(payload);
    if (kind == RecordKind::kLeases) return replay_state(payload);
    return unknown_record(kind);
  };
  return replayed(apply(), "leases");
}

// All leases last from now on: while there was no server, nobody could renew any.
void Leases::begin_anew() {
  const Time now = Deadline::Clock::now();
  for (auto& [name, pass] : passes_) {
    for (auto& [number, epoch] : pass.open) {
      for (auto& [shard, lease] : epoch->leases) lease.expires = now + std::chrono::milliseconds(lease.ttl_ms);
      epoch->find_next_expiry();
    }
  }
}

Result<void> Leases::replay_change(std::span<const std::byte> payload) {
  Reader in(payload);
  if (static_cast<Change>(in.get<uint64_t>()) == Change::kRestored) {
    FLOTA_ASSIGN(auto states, LeaseStates::decode(payload.subspan(sizeof(uint64_t))));
    replace_now(passes_of(states));
    return {};
  }
  in = Reader(payload);
  const auto head = in.get<ChangePart>();
  const auto shards = in.get_array<uint64_t>(head.shards);
  if (!in.ok()) return malformed("it is shorter than its fields say");
  FLOTA_ASSIGN(auto message, LeaseRequest::decode(payload.subspan(payload.size() - in.left())));
  for (uint64_t shard : shards) {
    if (shard >= message.shards) return malformed("there is no shard " + std::to_string(shard));
  }
  const auto change = static_cast<Change>(head.change);
  const bool grants = change == Change::kGranted || change == Change::kAgain;
  if (grants ? shards.size() != 1 : change != Change::kExpired && !shards.empty()) {
    return malformed("it has shards that it does not need, or has none");
  }
  if (change != Change::kTold && !message.progress.empty()) return malformed("it has progress that it does not need");
  if (change == Change::kMet) {
    meet_now(message);
    return {};
  }
  const auto known = workers_.find(message.rank);
  if (known == workers_.end() || known->second.incarnation != message.incarnation) {
    return malformed("it is of a worker that is not known so");
  }
  bool opens = false;
  FLOTA_ASSIGN(auto epoch, look(message, opens));
  if (change == Change::kOpened) {
    if (!opens) return malformed("its epoch cannot be opened");
    open_now(message);
    return {};
  }
  if (!epoch) return malformed("its epoch is not open");
  switch (change) {
    case Change::kExpired:
      expire_now(*epoch, shards);
      return {};
    case Change::kTold:
      note_now(*epoch, message);
      return {};
    case Change::kGranted:
    case Change::kAgain:
      if (epoch->done[shards[0]] || epoch->leases.contains(shards[0])) return malformed("its shard is not free");
      grant_now(*epoch, message, shards[0], change == Change::kAgain);
      return {};
    default:
      return malformed("it tells of nothing that is known");
  }
}

Result<void> Leases::replay_state(std::span<const std::byte> payload) {
  switch (Reader(payload).get<Part>()) {
    case Part::kHead:
      return replay_head(payload);
    case Part::kWorker:
      return replay_worker(payload);
    case Part::kPass:
      return replay_pass(payload);
    case Part::kEpoch:
      return replay_epoch(payload);
  }
  return malformed("it tells of nothing that is known");
}

Result<void> Leases::replay_head(std::span<const std::byte> payload) {
  Reader in(payload);
  const auto head = in.get<HeadPart>();
  FLOTA_TRY(in.finish("what was counted"));
  opened_ = head.opened;
  counts_ = {head.granted, head.expired};
  return {};
}

Result<void> Leases::replay_worker(std::span<const std::byte> payload) {
  Reader in(payload);
  const auto head = in.get<WorkerPart>();
  if (head.grants > kRememberedGrants) return malformed("more grants than are remembered");
  if (head.rank > ~uint32_t{0}) return malformed("there is no such worker");
  Worker worker{head.incarnation, {}};
  for (uint64_t i = 0; i < head.grants && in.ok(); ++i) {
    const auto grant = in.get<GrantPart>();
    worker.grants.push_back({in.get_string(kMaxNameBytes), grant.epoch, grant.call, grant.shard});
  }
  FLOTA_TRY(in.finish("a worker"));
  if (!workers_.emplace(static_cast<uint32_t>(head.rank), std::move(worker)).second) {
    return malformed("a worker stands there twice");
  }
  return {};
}

Result<void> Leases::replay_pass(std::span<const std::byte> payload) {
  Reader in(payload);
  const auto head = in.get<PassPart>();
  const std::string name = in.get_string(kMaxNameBytes);
  FLOTA_TRY(in.finish("a pass"));
  if (head.over_below > kMaxEpochs) return malformed("more epochs than there are");
  if (passes_.size() >= kMaxPasses) return malformed("too many passes");
  if (!passes_.emplace(name, Pass{head.over_below, head.opened, {}}).second)
    return malformed("a pass stands there twice");
  return {};
}

Result<void> Leases::replay_epoch(std::span<const std::byte> payload) {
  Reader in(payload);
  const auto head = in.get<EpochPart>();
  const std::string name = in.get_string(kMaxNameBytes);
  const auto runs = in.get_array<ShardRun>(head.runs);
  const auto begun = in.get_array<ShardSamples>(head.begun);
  const auto leases = in.get_array<LeasePart>(head.leases);
  FLOTA_TRY(in.finish("an epoch"));
  // What was done of it, in the words of a checkpoint, which are checked.
  LeaseState state{name, head.epoch, head.shards, 0, {runs.begin(), runs.end()}, {begun.begin(), begun.end()}};
  std::sort(state.partial.begin(), state.partial.end(), [](auto& a, auto& b) { return a.shard < b.shard; });
  const LeaseStates alone{{std::move(state)}};
  FLOTA_TRY(alone.check());
  const auto pass = passes_.find(name);
  if (pass == passes_.end() || head.shards == 0) return malformed("an epoch of no pass, or without shards");
  if (pass->second.open.size() >= kMaxOpenEpochs) return malformed("too many open epochs");
  std::shared_ptr<Epoch> epoch = passes_of(alone).at(name).open.at(head.epoch);
  for (const LeasePart& part : leases) {
    const bool lasts = part.ttl_ms >= LeaseRequest::kLeastTtl && part.ttl_ms <= LeaseRequest::kMostTtl;
    if (!lasts || part.rank > ~uint32_t{0} || part.shard >= head.shards || epoch->done[part.shard]) {
      return malformed("a lease that nobody can have");
    }
    const Lease lease{static_cast<uint32_t>(part.rank), part.call, part.ttl_ms, Time::max()};
    if (!epoch->leases.emplace(part.shard, lease).second) return malformed("a lease stands there twice");
  }
  if (!pass->second.open.emplace(head.epoch, std::move(epoch)).second) return malformed("an epoch stands there twice");
  return {};
}

}  // namespace flota
