#include "server/leases.h"

#include <algorithm>

#include "common/interrupt.h"
#include "server/wording.h"

namespace flota {
namespace {

constexpr size_t kRememberedClasses = 4096;

std::string name_of(const LeaseRequest& message) {
  return "pass '" + message.pass + "', epoch " + std::to_string(message.epoch);
}

bool in_class(uint64_t shard, const std::pair<uint64_t, uint64_t>& of) { return shard % of.second == of.first; }

// Shards that are told as trained but were not the caller's any more when the epoch ended.
std::vector<uint64_t> unfinished(const LeaseRequest& message) {
  std::vector<uint64_t> lost;
  for (const ShardProgress& one : message.progress) {
    if ((one.flags & ShardProgress::kDone) == 0) lost.push_back(one.shard);
  }
  return lost;
}

}  // namespace

Leases::Cursor& Leases::Epoch::cursor(const Class& of) {
  // They only save time. A job has as many classes as workers, so this many means that they changed.
  if (cursors.size() >= kRememberedClasses && !cursors.contains(of)) cursors.clear();
  return cursors.try_emplace(of, Cursor{of.first, of.first}).first->second;
}

uint64_t Leases::Epoch::lowest_free(const Class& of) {
  uint64_t& shard = cursor(of).free;
  while (shard < done.size() && (done[shard] || leases.contains(shard))) shard += of.second;
  return std::min<uint64_t>(shard, done.size());
}

bool Leases::Epoch::class_over(const Class& of) {
  uint64_t& shard = cursor(of).undone;
  while (shard < done.size() && done[shard]) shard += of.second;
  return shard >= done.size();
}

bool Leases::Epoch::others_hold(const Class& of, uint32_t rank) const {
  return std::any_of(leases.begin(), leases.end(),
                     [&](const auto& entry) { return entry.second.rank != rank && in_class(entry.first, of); });
}

uint64_t Leases::Epoch::samples_of(uint64_t shard) const {
  const auto found = samples.find(shard);
  return found == samples.end() ? 0 : found->second;
}

std::vector<ShardRun> Leases::Epoch::done_runs() const {
  std::vector<ShardRun> runs;
  for (uint32_t shard = 0; shard < done.size(); ++shard) {
    if (!done[shard]) continue;
    if (runs.empty() || runs.back().end != shard) runs.push_back({shard, shard});
    runs.back().end = shard + 1;
  }
  return runs;
}

void Leases::Epoch::hold(uint64_t shard, const LeaseRequest& message) {
  const Time expires = Deadline::Clock::now() + std::chrono::milliseconds(message.ttl_ms);
  // A renewed lease keeps the call that it was taken by.
  Lease& lease = leases.try_emplace(shard, Lease{message.rank, message.call, 0, expires}).first->second;
  lease.ttl_ms = message.ttl_ms;
  lease.expires = expires;
  next_expiry = std::min(next_expiry, expires);
}

void Leases::Epoch::renew(const LeaseRequest& message) {
  for (const ShardProgress& one : message.progress) {
    const auto found = leases.find(one.shard);
    if (found != leases.end() && found->second.rank == message.rank) hold(one.shard, message);
  }
}

void Leases::Epoch::set_free(uint64_t shard) {
  leases.erase(shard);
  for (auto& [of, cursor] : cursors) {
    if (in_class(shard, of)) cursor.free = std::min(cursor.free, shard);
  }
  changed.notify_all();
}

void Leases::Epoch::set_done(uint64_t shard) {
  leases.erase(shard);
  samples.erase(shard);
  done[shard] = true;
  --left;
  changed.notify_all();
}

std::vector<uint64_t> Leases::Epoch::ended(Time now) const {
  std::vector<uint64_t> shards;
  for (const auto& [shard, lease] : leases) {
    if (lease.expires <= now) shards.push_back(shard);
  }
  return shards;
}

void Leases::Epoch::find_next_expiry() {
  next_expiry = Time::max();
  for (const auto& [shard, lease] : leases) next_expiry = std::min(next_expiry, lease.expires);
}

void Leases::Epoch::free_all(uint32_t rank) {
  std::vector<uint64_t> held;
  for (const auto& [shard, lease] : leases) {
    if (lease.rank == rank) held.push_back(shard);
  }
  for (uint64_t shard : held) set_free(shard);
  changed.notify_all();  // what the worker waited for by an earlier incarnation is not its any more
}

bool Leases::Epoch::has_news(const LeaseRequest& message) const {
  return std::any_of(message.progress.begin(), message.progress.end(), [&](const ShardProgress& one) {
    if (done[one.shard]) return false;
    if ((one.flags & ShardProgress::kDone) != 0 || one.samples > samples_of(one.shard)) return true;
    const auto found = leases.find(one.shard);
    if ((one.flags & ShardProgress::kReleased) == 0) return found == leases.end();
    return found != leases.end() && found->second.rank == message.rank && found->second.call <= message.call;
  });
}

std::vector<uint64_t> Leases::Epoch::note(const LeaseRequest& message) {
  std::vector<uint64_t> lost;
  for (const ShardProgress& one : message.progress) {
    const bool finished = (one.flags & ShardProgress::kDone) != 0;
    if (done[one.shard]) {
      if (!finished) lost.push_back(one.shard);
      continue;
    }
    const auto found = leases.find(one.shard);
    const bool held = found != leases.end();
    const bool by_another = held && found->second.rank != message.rank;
    if (by_another) lost.push_back(one.shard);
    if (finished) {
      set_done(one.shard);
      continue;
    }
    if (one.samples > samples_of(one.shard)) samples[one.shard] = one.samples;
    if (by_another) continue;
    if ((one.flags & ShardProgress::kReleased) == 0) {
      hold(one.shard, message);
    } else if (held && found->second.call <= message.call) {
      // Otherwise it is an old request that comes again, and the worker has taken the shard back since.
      set_free(one.shard);
    }
  }
  return lost;
}

Result<void> Leases::meet(const LeaseRequest& message) {
  const auto found = workers_.find(message.rank);
  if (found != workers_.end()) {
    const uint64_t known = found->second.incarnation;
    if (message.incarnation == known) return {};
    if (message.incarnation < known) return replaced(message.rank, known, message.incarnation);
  }
  FLOTA_TRY(write(Change::kMet, message));
  meet_now(message);
  return {};
}

void Leases::meet_now(const LeaseRequest& message) {
  workers_[message.rank] = {message.incarnation, {}};
  for (auto& [name, pass] : passes_) {
    for (auto& [number, epoch] : pass.open) epoch->free_all(message.rank);
  }
}

Leases::Passes::iterator Leases::forgettable() {
  auto oldest = passes_.end();
  for (auto each = passes_.begin(); each != passes_.end(); ++each) {
    if (!each->second.open.empty()) continue;
    if (oldest == passes_.end() || each->second.opened < oldest->second.opened) oldest = each;
  }
  return oldest;
}

Result<std::shared_ptr<Leases::Epoch>> Leases::look(const LeaseRequest& message, bool& opens) {
  opens = false;
  const std::shared_ptr<Epoch> none;
  const auto known = passes_.find(message.pass);
  if (known != passes_.end()) {
    Pass& pass = known->second;
    const auto found = pass.open.find(message.epoch);
    if (found != pass.open.end()) {
      const uint64_t shards = found->second->done.size();
      if (shards == message.shards) return found->second;
      return invalid(name_of(message) + ": " + worker(message.rank) + " says there are " +
                     std::to_string(message.shards) + " shards, others say " + std::to_string(shards));
    }
    if (message.epoch < pass.over_below) return none;
    if (pass.open.size() == kMaxOpenEpochs && message.epoch < pass.open.begin()->first) return none;
  } else if (passes_.size() >= kMaxPasses && forgettable() == passes_.end()) {
    return Error{ErrorCode::kTooLarge, "more than 1,024 passes over data that are not over"};
  }
  opens = true;
  return none;
}

Result<std::shared_ptr<Leases::Epoch>> Leases::find(const LeaseRequest& message) {
  bool opens = false;
  FLOTA_ASSIGN(auto found, look(message, opens));
  if (!opens) return found;
  FLOTA_TRY(write(Change::kOpened, message));
  return open_now(message);
}

std::shared_ptr<Leases::Epoch> Leases::open_now(const LeaseRequest& message) {
  if (passes_.size() >= kMaxPasses && !passes_.contains(message.pass)) passes_.erase(forgettable());
  Pass& pass = passes_[message.pass];
  pass.opened = ++opened_;
  if (pass.open.size() == kMaxOpenEpochs) close(pass, pass.open.begin()->first);
  return pass.open[message.epoch] = std::make_shared<Epoch>(message.shards);
}

Result<void> Leases::expire(Epoch& epoch, const LeaseRequest& message) {
  const Time now = Deadline::Clock::now();
  // What has ended meanwhile is not among the passes any more, and nobody is given anything of it.
  if (now < epoch.next_expiry || epoch.over || epoch.replaced) return {};
  const std::vector<uint64_t> ended = epoch.ended(now);
  if (!ended.empty()) FLOTA_TRY(write(Change::kExpired, message, ended));
  expire_now(epoch, ended);
  return {};
}

void Leases::expire_now(Epoch& epoch, std::span<const uint64_t> shards) {
  for (uint64_t shard : shards) epoch.set_free(shard);
  counts_.expired += shards.size();
  epoch.find_next_expiry();
}

Result<std::vector<uint64_t>> Leases::note(Epoch& epoch, const LeaseRequest& message) {
  if (epoch.has_news(message)) FLOTA_TRY(write(Change::kTold, message));
  return note_now(epoch, message);
}

std::vector<uint64_t> Leases::note_now(Epoch& epoch, const LeaseRequest& message) {
  std::vector<uint64_t> lost = epoch.note(message);
  if (epoch.left == 0) close(passes_[message.pass], message.epoch);
  return lost;
}

void Leases::close(Pass& pass, uint64_t number) {
  const auto found = pass.open.find(number);
  found->second->over = true;
  found->second->changed.notify_all();
  pass.open.erase(found);
  pass.over_below = std::max(pass.over_below, number + 1);
}

const Leases::Grant* Leases::given(const LeaseRequest& message) const {
  for (const Grant& grant : workers_.at(message.rank).grants) {
    if (grant.call == message.call && grant.epoch == message.epoch && grant.pass == message.pass) return &grant;
  }
  return nullptr;
}

Result<bool> Leases::grant(Epoch& epoch, const LeaseRequest& message, LeaseReply& reply) {
  const auto can_have_again = [&](uint64_t shard) {
    if (shard >= epoch.done.size() || epoch.done[shard]) return false;
    const auto held = epoch.leases.find(shard);
    return held == epoch.leases.end() || held->second.rank == message.rank;
  };
  const Grant* before = given(message);
  const bool again = before != nullptr && can_have_again(before->shard);
  const uint64_t shard = again ? before->shard : epoch.lowest_free({message.first, message.stride});
  if (shard == epoch.done.size()) return false;
  if (!epoch.leases.contains(shard)) {
    FLOTA_TRY(write(again ? Change::kAgain : Change::kGranted, message, std::span(&shard, 1)));
  }
  grant_now(epoch, message, shard, again);
  reply.outcome = LeaseOutcome::kGranted;
  reply.shard = shard;
  reply.samples = epoch.samples_of(shard);
  return true;
}

void Leases::grant_now(Epoch& epoch, const LeaseRequest& message, uint64_t shard, bool again) {
  epoch.hold(shard, message);
  if (again) return;
  std::deque<Grant>& grants = workers_.at(message.rank).grants;
  grants.push_front({message.pass, message.epoch, message.call, shard});
  if (grants.size() > kRememberedGrants) grants.pop_back();
  ++counts_.granted;
}

Result<void> Leases::wait(std::unique_lock<std::mutex>& lock, Epoch& epoch, Deadline deadline) {
  const Time until = std::min(deadline.when(), epoch.next_expiry);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Deadline::Clock::now());
  epoch.changed.wait_for(lock, Interrupt::slice(std::min<std::chrono::milliseconds>(left, std::chrono::hours(1))));
  lock.unlock();
  Result<void> wanted = Interrupt::check();
  lock.lock();
  return wanted;
}

Result<LeaseReply> Leases::ask(const LeaseRequest& message, Deadline deadline) {
  std::unique_lock lock(mutex_);
  const Error stopping{ErrorCode::kShuttingDown, "the server is stopping"};
  if (stopped_) return stopping;
  if (std::exchange(replayed_, false)) begin_anew();
  FLOTA_TRY(meet(message));
  FLOTA_ASSIGN(auto epoch, find(message));
  LeaseReply reply;
  reply.outcome = message.take ? LeaseOutcome::kOver : LeaseOutcome::kNoted;
  if (!epoch) {
    reply.lost = unfinished(message);
    return reply;
  }
  const Class of{message.first, message.stride};
  const auto heard = [&]() -> Result<void> {
    FLOTA_TRY(expire(*epoch, message));
    FLOTA_ASSIGN(reply.lost, note(*epoch, message));
    return {};
  }();
  if (!heard) {
    // Nobody loses what it holds because this server's disk is full.
    epoch->renew(message);
    return heard.error();
  }
  while (message.take && !epoch->over && !epoch->class_over(of)) {
    if (!epoch->replaced) {
      FLOTA_ASSIGN(bool granted, grant(*epoch, message, reply));
      if (granted) break;
    }
    if (!epoch->replaced && !epoch->others_hold(of, message.rank)) {
      reply.outcome = LeaseOutcome::kOwn;
      break;
    }
    if (epoch->replaced || deadline.passed()) {
      reply.outcome = LeaseOutcome::kNone;
      break;
    }
    FLOTA_TRY(wait(lock, *epoch, deadline));
    if (stopped_) return stopping;
    FLOTA_TRY(meet(message));
    FLOTA_TRY(expire(*epoch, message));
  }
  reply.left = epoch->over ? 0 : epoch->left;
  return reply;
}

LeaseStates Leases::state() const {
  std::lock_guard lock(mutex_);
  LeaseStates states;
  for (const auto& [name, pass] : passes_) {
    if (pass.open.empty()) states.epochs.push_back({name, 0, 0, pass.over_below, {}, {}});
    for (const auto& [number, epoch] : pass.open) {
      LeaseState state{name, number, epoch->done.size(), pass.over_below, epoch->done_runs(), {}};
      for (const auto& [shard, samples] : epoch->samples) state.partial.push_back({shard, samples});
      std::sort(state.partial.begin(), state.partial.end(), [](auto& a, auto& b) { return a.shard < b.shard; });
      states.epochs.push_back(std::move(state));
    }
  }
  return states;
}

Leases::Passes Leases::passes_of(const LeaseStates& states) {
  Passes passes;
  for (const LeaseState& state : states.epochs) {
    Pass& pass = passes[state.pass];
    pass.over_below = state.over_below;
    if (state.shards == 0) continue;
    auto epoch = std::make_shared<Epoch>(state.shards);
    for (const ShardRun& run : state.done) {
      for (uint64_t shard = run.begin; shard < run.end; ++shard) epoch->set_done(shard);
    }
    for (const ShardSamples& partial : state.partial) epoch->samples[partial.shard] = partial.samples;
    pass.open[state.epoch] = std::move(epoch);
  }
  return passes;
}

Result<void> Leases::restore(const LeaseStates& states) {
  FLOTA_TRY(states.check());
  Passes passes = passes_of(states);
  std::lock_guard lock(mutex_);
  if (journal_ != nullptr) {
    Writer record;
    record.put(Change::kRestored);
    states.encode(record);
    FLOTA_TRY(write_record(journal_, RecordKind::kLease, record));
  }
  replace_now(std::move(passes));
  return {};
}

void Leases::replace_now(Passes passes) {
  for (auto& [name, pass] : passes_) {
    for (auto& [number, epoch] : pass.open) {
      epoch->replaced = true;
      epoch->changed.notify_all();
    }
  }
  passes_ = std::move(passes);
  for (auto& [rank, worker] : workers_) worker.grants.clear();
}

void Leases::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  for (auto& [name, pass] : passes_) {
    for (auto& [number, epoch] : pass.open) epoch->changed.notify_all();
  }
}

Leases::Counts Leases::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace flota
