// A client's calls for workers that may have been started before.
#include <algorithm>
#include <numeric>

#include "client/client.h"
#include "client/small_call.h"
#include "client/with_lane.h"
#include "common/lost.h"

namespace flota {
namespace {

bool earlier(const Finished& a, const Finished& b) { return a.ordinal < b.ordinal; }

}  // namespace

std::vector<uint32_t> Client::all_servers() const {
  std::vector<uint32_t> all(servers());
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

Result<std::vector<Client::RejoinAnswer>> Client::ask_rejoin(const Rejoin& message,
                                                             const std::vector<uint32_t>& servers, Time time) {
  std::vector<RejoinAnswer> answers(servers.size());
  FLOTA_TRY(with_lane("rejoin as worker " + std::to_string(message.rank), time, [&](Lane& lane, Deadline deadline) {
    Writer payload;
    message.encode(payload);
    std::vector<Lane::Request> requests;
    for (size_t place = 0; place < servers.size(); ++place) {
      requests.push_back(
          {servers[place], small_call(MessageKind::kRejoin, payload, [&answers, place](auto bytes) -> Result<void> {
             RejoinAnswer& answer = answers[place];
             FLOTA_ASSIGN(answer.reply, RejoinReply::decode(bytes));
             const LastFinish& last = answer.reply.last;
             answer.last = {last.group,
                            last.step,
                            last.count,
                            last.samples,
                            last.leave,
                            {last.position.begin(), last.position.end()},
                            last.ordinal,
                            {last.pushes.begin(), last.pushes.end()},
                            {}};
             answer.position.assign(answer.reply.position.begin(), answer.reply.position.end());
             answer.reply.position = answer.reply.last.position = {};  // the bytes go
             answer.reply.last.pushes = {};
             return {};
           })});
    }
    return lane.exchange(requests, deadline);
  }));
  return answers;
}

Result<void> Client::check_knows(uint32_t server, uint32_t rank, uint64_t known, uint64_t least,
                                 uint64_t finished) const {
  if (known >= least) return {};
  return lost("server " + std::to_string(server) + " (" + links_[server].endpoint.to_string() + ") knows of " +
              std::to_string(known) + " of the " + std::to_string(finished) + " steps that worker " +
              std::to_string(rank) + " has finished");
}

Result<void> Client::check_finishes(uint32_t rank, uint32_t world, Time time) {
  const uint64_t finished = tally_.finished(rank);
  Rejoin message;
  message.rank = rank;
  message.world = world;
  FLOTA_ASSIGN(auto answers, ask_rejoin(message, all_servers(), time));
  for (uint32_t server = 0; server < answers.size(); ++server) {
    FLOTA_TRY(check_knows(server, rank, answers[server].last.ordinal, finished, finished));
  }
  return {};
}

Result<Rejoined> Client::rejoin(uint32_t rank, uint32_t world, Time time) {
  Rejoin message;
  message.worker = options_.worker;
  message.rank = rank;
  message.world = world;
  FLOTA_ASSIGN(auto known, ask_rejoin(message, all_servers(), time));
  for (const RejoinAnswer& server : known) {
    // Clocks of hosts differ, and a second may see two starts: it is later than the one before in any case.
    if (server.reply.incarnation >= options_.epoch) options_.epoch = server.reply.incarnation + 1;
    message.starts = std::max(message.starts, server.reply.starts);
  }
  message.part = RejoinPart::kClaim;
  message.incarnation = std::max(options_.epoch, 1u);
  options_.epoch = message.incarnation;
  ++message.starts;
  FLOTA_ASSIGN(auto servers, ask_rejoin(message, all_servers(), time));
  const auto newest = std::max_element(servers.begin(), servers.end(),
                                       [](const auto& a, const auto& b) { return earlier(a.last, b.last); });
  Rejoined place;
  place.starts = message.starts;
  place.last = newest->last;
  place.steps = servers[0].reply.steps;
  place.position = servers[0].position;
  for (const Passed& barrier : servers[0].reply.passed) place.passed[barrier.name] = barrier.times;
  std::vector<uint32_t> have_it;
  for (uint32_t server = 0; server < servers.size(); ++server) {
    const uint64_t knows = servers[server].last.ordinal;
    const uint64_t least = place.last.ordinal - std::min<uint64_t>(place.last.ordinal, 1);
    FLOTA_TRY(check_knows(server, rank, knows, least, place.last.ordinal));
    const bool lacks = earlier(servers[server].last, place.last);
    if (!lacks) have_it.push_back(server);
    if (lacks || (!place.last.group.empty() && !servers[server].reply.last.applied)) {
      place.last.pending.push_back(server);
    }
  }
  // A worker finishes a step when all servers hold what it has pushed to it. So where one of them knows of the finish,
  // the others hold it for good, and have nothing of a later step; those that know of it may: nobody may use that.
  message.part = RejoinPart::kDrop;
  FLOTA_TRY(ask_rejoin(message, have_it, time));
  const Finished& last = place.last;
  tally_.finished(rank, {last.group, last.step, last.leave, last.ordinal, last.pushes});
  std::lock_guard lock(mutex_);
  joined_ = Joined{rank, world, message.starts};
  return place;
}

Result<void> Client::note_steps(uint64_t steps, uint64_t reached, uint64_t target, Time time,
                                std::span<const std::byte> position) {
  Rejoin message;
  {
    std::lock_guard lock(mutex_);
    if (!joined_) return invalid("only a worker that has joined its job tells how far it is");
    message = {RejoinPart::kNote, options_.worker, joined_->rank, joined_->world, options_.epoch,
               joined_->starts,   steps,           reached,       target,         0,
               position};
  }
  FLOTA_TRY(ask_rejoin(message, {0}, time));
  return {};
}

Result<uint32_t> Client::announce(uint32_t rank, uint32_t world, Time time) {
  Rejoin message;
  message.part = RejoinPart::kComing;
  message.rank = rank;
  message.world = world;
  FLOTA_ASSIGN(auto answers, ask_rejoin(message, {0}, time));
  return answers[0].reply.incarnation;
}

Result<std::vector<OnItsWay>> Client::on_their_way(Time within, Time time) {
  Rejoin message;
  message.world = 1;
  message.within_ms = static_cast<uint64_t>(within.count());
  FLOTA_ASSIGN(auto answers, ask_rejoin(message, {0}, time));
  return answers[0].reply.on_their_way;
}

std::map<std::string, uint64_t> Client::arrivals() {
  std::lock_guard lock(mutex_);
  return arrivals_;
}

void Client::set_arrivals(std::map<std::string, uint64_t> arrivals) {
  std::lock_guard lock(mutex_);
  arrivals_ = std::move(arrivals);
}

}  // namespace flota
