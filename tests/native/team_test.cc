#include "server/team.h"

#include <thread>

#include "cluster.h"
#include "durable_folder.h"
#include "memory_journal.h"
#include "server/barriers.h"
#include "server/clocks.h"

using namespace flota;
using namespace flota::testing;

namespace {

Deadline now() { return Deadline::after(milliseconds(0)); }

TeamRequest joins(uint32_t rank, uint32_t workers, TeamMode mode = TeamMode::kAsync) {
  return {TeamPart::kJoin, mode, rank, workers, 100, ""};
}
TeamRequest scales(uint32_t workers) { return {TeamPart::kScale, TeamMode::kAsync, 0, workers, 0, ""}; }
TeamRequest leaves(uint32_t rank) { return {TeamPart::kLeave, TeamMode::kAsync, rank, 0, 0, ""}; }
TeamRequest pins(uint32_t rank) { return {TeamPart::kPin, TeamMode::kAsync, rank, 0, 100, "data by number"}; }

Result<TeamReply> answer(Team& team, const TeamRequest& message, Deadline deadline = now()) {
  if (message.part != TeamPart::kLeave) return team.answer(message, deadline);
  const auto frozen = team.freeze();
  return team.leave(message);
}

std::string told(Team& team) {
  const TeamReply reply = value_of(answer(team, {}));
  std::string text = std::string(to_string(reply.mode)) + " wanted " + std::to_string(reply.wanted) + ":";
  for (const auto& [rank, late] : team.roll()->late) text += " " + std::to_string(rank) + (late ? "+" : "");
  return text;
}

// Barriers and clocks of these workers.
struct Meeting {
  Team team;
  Barriers barriers;
  Clocks clocks;

  explicit Meeting(uint32_t workers) {
    barriers.set_team(&team);
    clocks.set_team(&team);
    value_of(answer(team, joins(0, workers)));
  }
  void leave(uint32_t rank) {
    value_of(answer(team, leaves(rank)));
    {
      const auto frozen = clocks.freeze();
      clocks.leave(rank);
    }
    barriers.leave(rank);
  }
  std::string brought(uint32_t rank, uint64_t call, Deadline deadline = now(), uint64_t count = Barrier::kUncounted) {
    const std::string brings = std::to_string(rank);
    auto all = barriers.arrive("b", call, rank, 0, deadline, std::as_bytes(std::span(brings)), count);
    if (!all) return message_of(all);
    std::string text;
    for (const auto& part : **all)
      text += part.empty() ? "-" : reinterpret_cast<const char*>(part.data())[0] + std::string();
    return text;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(team, *boost::unit_test::timeout(60))

BOOST_AUTO_TEST_CASE(the_first_that_joins_says_how_many_there_are) {
  Team team;
  BOOST_TEST(value_of(answer(team, {})).workers == 0u);
  BOOST_TEST(value_of(answer(team, joins(1, 3))).workers == 3u);
  BOOST_TEST(!value_of(answer(team, joins(0, 3))).late);
  BOOST_TEST(message_of(answer(team, joins(0, 2))) == "worker 0 says there are 2 workers, others say 3");
  BOOST_TEST(message_of(answer(team, joins(0, 3, TeamMode::kSync))) ==
             "worker 0 trains in sync mode, others in async mode");
}

BOOST_AUTO_TEST_CASE(workers_of_higher_ranks_join_in_their_order_when_they_may) {
  Team team;
  value_of(answer(team, joins(0, 1)));
  BOOST_TEST(message_of(answer(team, joins(1, 2))) ==
             "worker 1 is none of this job's 1 worker: `flota scale --workers 2` lets it join");
  value_of(answer(team, scales(3)));
  BOOST_TEST(told(team) == "async wanted 3: 0");
  BOOST_TEST(message_of(answer(team, joins(2, 3))) == "worker 2 waited 0.1 s to join: worker 1 has to join before it");
  std::thread second([&] { BOOST_TEST(value_of(answer(team, joins(2, 3), patience())).late); });
  BOOST_TEST(value_of(answer(team, joins(1, 3))).late);
  second.join();
  BOOST_TEST(told(team) == "async wanted 3: 0 1+ 2+");
  // Started again by somebody who has not heard of the new number.
  BOOST_TEST(!value_of(answer(team, joins(0, 1))).late);
  BOOST_TEST(message_of(answer(team, joins(3, 4))) ==
             "worker 3 is none of this job's 3 workers: `flota scale --workers 4` lets it join");
}

BOOST_AUTO_TEST_CASE(workers_that_are_to_leave_count_until_they_have) {
  Team team;
  value_of(answer(team, joins(0, 3)));
  const TeamReply reply = value_of(answer(team, scales(1)));
  BOOST_TEST(reply.wanted == 1u);
  BOOST_TEST(reply.workers == 3u);
  value_of(answer(team, leaves(1)));
  BOOST_TEST(value_of(answer(team, {})).workers == 3u);  // one more than the highest rank
  value_of(answer(team, leaves(2)));
  value_of(answer(team, leaves(2)));
  BOOST_TEST(told(team) == "async wanted 1: 0");
}

BOOST_AUTO_TEST_CASE(jobs_whose_number_is_fixed_say_why) {
  Team empty, sync, geo, fixed;
  BOOST_TEST(code_of(answer(empty, scales(2))) == ErrorCode::kBusy);
  value_of(answer(sync, joins(0, 1, TeamMode::kSync)));
  BOOST_TEST(
      message_of(answer(sync, scales(2))) ==
      "this job trains in sync mode, where the number of workers is fixed: its workers make every step together, "
      "and a step's average is over all of them; only an async job can be scaled");
  value_of(answer(geo, joins(0, 1, TeamMode::kGeo)));
  BOOST_TEST(code_of(answer(geo, scales(2))) == ErrorCode::kInvalidArgument);
  value_of(answer(fixed, joins(0, 2)));
  value_of(answer(fixed, pins(1)));
  value_of(answer(fixed, pins(0)));
  value_of(answer(fixed, scales(2)));
  BOOST_TEST(
      message_of(answer(fixed, scales(3))) ==
      "the number of workers is fixed, as the job has come to data by number: each worker's part of the data goes "
      "by that number");
}

BOOST_AUTO_TEST_CASE(what_goes_by_the_number_waits_for_those_that_leave) {
  Team team;
  value_of(answer(team, joins(0, 2)));
  value_of(answer(team, scales(1)));
  BOOST_TEST(message_of(answer(team, pins(0))) == "worker 0 waited 0.1 s for worker 1 to leave, before data by number");
  value_of(answer(team, pins(1)));  // has no part in it itself
  std::thread waits([&] { value_of(answer(team, pins(0), patience())); });
  value_of(answer(team, leaves(1)));
  waits.join();
}

BOOST_AUTO_TEST_CASE(who_has_not_come_before_the_number_is_fixed_comes_no_more) {
  Team team;
  value_of(answer(team, joins(0, 1)));
  value_of(answer(team, scales(2)));
  value_of(answer(team, pins(0)));
  BOOST_TEST(told(team) == "async wanted 1: 0");
  BOOST_TEST(code_of(answer(team, joins(1, 2))) == ErrorCode::kInvalidArgument);
}

BOOST_AUTO_TEST_CASE(a_team_that_dies_answers_as_one_that_lives) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    Team living;
    Mortal<Team> mortal;
    for (int call = 0; call < 200; ++call) {
      const auto rank = static_cast<uint32_t>(random() % 5);
      const auto count = static_cast<uint32_t>(1 + random() % 5);
      const TeamRequest all[] = {joins(rank, std::max(count, rank + 1)), scales(count), leaves(rank), pins(rank), {}};
      const TeamRequest& message = all[random() % (random() % 20 == 0 ? 5 : 3)];
      const auto one = answer(living, message), other = answer(*mortal, message);
      BOOST_TEST((one ? "" : message_of(one)) == (other ? "" : message_of(other)));
      BOOST_TEST(told(living) == told(*mortal));
      if (random() % 30 == 0) mortal.take_snapshot();
      if (random() % 3 == 0) mortal.restart();
    }
  }
}

BOOST_AUTO_TEST_CASE(damaged_records_are_refused) {
  Mortal<Team> team;
  value_of(answer(*team, joins(0, 2)));
  value_of(answer(*team, scales(3)));
  team.take_snapshot();
  value_of(answer(*team, joins(2, 3)));
  value_of(answer(*team, pins(0)));
  Records records = saved(*team);
  BOOST_TEST(refuses_cut_records<Team>(records));
  std::mt19937_64 random(7);
  replay_damaged<Team>(records, random, [](Team& damaged) { (void)answer(damaged, scales(2)); });
  replay_damaged<Team>(team.journal().records, random, [](Team& damaged) { (void)answer(damaged, leaves(2)); });
}

BOOST_AUTO_TEST_CASE(nothing_changes_that_cannot_be_written_down) {
  Team team;
  MemoryJournal journal;
  team.set_journal(&journal);
  value_of(answer(team, joins(0, 1)));
  journal.full = true;
  BOOST_TEST(code_of(answer(team, scales(2))) == ErrorCode::kNoSpace);
  BOOST_TEST(code_of(answer(team, leaves(0))) == ErrorCode::kNoSpace);
  BOOST_TEST(told(team) == "async wanted 1: 0");
}

BOOST_AUTO_TEST_CASE(a_barrier_of_the_job_is_of_those_that_are_there_when_the_last_one_comes) {
  Meeting job(2);
  BOOST_TEST(job.brought(0, 1) == "barrier 'b': worker 0 waited in vain for worker 1 of 2");
  BOOST_TEST(job.brought(2, 2) == "barrier 'b': worker 2 is none of this job's: it has not joined it, or has left");
  value_of(answer(job.team, scales(3)));
  std::thread first([&] { BOOST_TEST(job.brought(0, 3, patience()) == "012"); });
  value_of(answer(job.team, joins(2, 3)));
  std::thread second([&] { BOOST_TEST(job.brought(1, 4, patience()) == "012"); });
  BOOST_TEST(job.brought(2, 5, patience()) == "012");
  first.join();
  second.join();
}

BOOST_AUTO_TEST_CASE(a_worker_that_leaves_lets_those_go_who_wait_for_it) {
  Meeting job(4);
  value_of(answer(job.team, scales(1)));
  job.leave(1);  // before the others
  std::thread first([&] { BOOST_TEST(job.brought(0, 1, patience()) == "0--3"); });
  std::thread last([&] { BOOST_TEST(job.brought(3, 2, patience()) == "0--3"); });
  job.leave(2);
  first.join();
  last.join();
  BOOST_TEST(code_of(job.barriers.arrive("b", 3, 2, 0, now())) == ErrorCode::kInvalidArgument);
}

BOOST_AUTO_TEST_CASE(a_worker_that_joins_late_is_told_what_was_brought_before) {
  Meeting job(1);
  for (uint64_t count = 0; count < 3; ++count) BOOST_TEST(job.brought(0, 1 + count, now(), count) == "0");
  value_of(answer(job.team, scales(2)));
  value_of(answer(job.team, joins(1, 2)));
  BOOST_TEST(job.brought(0, 10, now(), 3) == "barrier 'b': worker 0 waited in vain for worker 1 of 2");
  for (uint64_t count = 0; count < 3; ++count) BOOST_TEST(job.brought(1, 20 + count, now(), count) == "0");
  std::thread first([&] { BOOST_TEST(job.brought(0, 30, patience(), 3) == "01"); });
  BOOST_TEST(job.brought(1, 31, patience(), 3) == "01");
  first.join();
}

BOOST_AUTO_TEST_CASE(nobody_waits_for_the_steps_of_who_has_just_joined_or_has_left) {
  Meeting job(2);
  const auto at = [&](uint32_t rank, uint64_t step, bool rest = false) {
    const auto slowest = job.clocks.advance({"train", step, 2, rank, 0, 100, false, rest}, now());
    return slowest ? std::to_string(*slowest) : message_of(slowest);
  };
  BOOST_TEST(at(0, 3) == "worker 0 waited 0.1 s for step 1: worker 1 has finished no step yet");
  BOOST_TEST(at(1, 4) == "3");
  BOOST_TEST(at(2, 1) == "worker 2 is none of this job's: it has not joined it, or has left");
  value_of(answer(job.team, scales(3)));
  value_of(answer(job.team, joins(2, 3)));
  BOOST_TEST(at(0, 6) == "4");
  BOOST_TEST(at(2, 0, true) == "4");  // it goes on from where the slowest is
  BOOST_TEST(at(2, 5) == "4");
  BOOST_TEST(at(1, 6) == "5");
  BOOST_TEST(at(0, 8) == "worker 0 waited 0.1 s for step 6: worker 2 is at step 5");
  value_of(answer(job.team, scales(2)));
  job.leave(2);
  BOOST_TEST(at(0, 8) == "6");
  // Another of its rank begins anew.
  value_of(answer(job.team, scales(3)));
  value_of(answer(job.team, joins(2, 3)));
  BOOST_TEST(at(2, 0, true) == "6");
}

BOOST_AUTO_TEST_CASE(a_server_that_comes_back_knows_who_came_and_went) {
  const TemporaryFolder folder;
  ServerOptions options;
  options.durable.folder = folder.path().string();
  const auto worker = [](const Cluster& cluster, uint32_t rank) {
    ClientOptions of = cluster.options();
    of.worker = rank + 1;
    return value_of(Client::connect(of, kTime));
  };
  const auto lease = [](Client& client, uint32_t rank, uint64_t call) {
    LeaseRequest message;
    message.pass = "train";
    message.shards = 1;
    message.rank = rank;
    message.world = 8;
    message.call = call;
    message.ttl_ms = 60'000;
    message.stride = 1;
    message.take = true;
    return value_of(client.lease(message, kTime)).outcome;
  };
  for (int life = 0; life < 3; ++life) {
    Cluster cluster(1, options);
    auto first = worker(cluster, 0);
    if (life == 0) {
      value_of(first->team(joins(0, 1), kTime));
      value_of(first->rejoin(0, 1, kTime));
      value_of(first->team(scales(2), kTime));
      auto second = worker(cluster, 1);
      BOOST_TEST(value_of(second->team(joins(1, 2), kTime)).late);
      value_of(second->rejoin(1, 2, kTime));
      value_of(second->note_steps(7, 0, 0, kTime));
      BOOST_TEST((lease(*second, 1, 1) == LeaseOutcome::kGranted));
      continue;
    }
    value_of(first->rejoin(0, 1, kTime));
    const TeamReply reply = value_of(first->team({}, kTime));
    BOOST_TEST(reply.workers == (life == 1 ? 2u : 1u));
    if (life == 1) {
      value_of(first->team(scales(1), kTime));
      value_of(first->team(leaves(1), kTime));
    } else {
      // What it had is free, and the next of its rank begins anew.
      BOOST_TEST((lease(*first, 0, 1) == LeaseOutcome::kGranted));
      value_of(first->team(scales(2), kTime));
      auto again = worker(cluster, 1);
      value_of(again->team(joins(1, 2), kTime));
      const Rejoined place = value_of(again->rejoin(1, 2, kTime));
      BOOST_TEST(place.starts == 1u);
      BOOST_TEST(place.steps == 0u);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
