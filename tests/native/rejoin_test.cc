#include <thread>

#include "cluster.h"
#include "durable_folder.h"
#include "memory_journal.h"
#include "server/finishes.h"
#include "server/rejoins.h"
#include "server/steps.h"

using namespace flota;
using namespace flota::testing;

namespace {

constexpr const char* kGroup = "flota/train/0";
constexpr uint32_t kWorld = 2;
constexpr Client::Time kSoon = Client::Time(100);

std::unique_ptr<Client> worker(const Cluster& cluster, uint32_t rank) {
  ClientOptions options = cluster.options();
  options.worker = rank + 1;
  return value_of(Client::connect(options, kTime));
}

PushOptions of_step(uint64_t step, uint32_t rank) {
  PushOptions options;
  options.lr = 1;
  options.step = step;
  options.group = hash_name(kGroup);
  options.rank = rank;
  return options;
}

StepEnd end_of(uint64_t step, uint32_t rank) { return {kGroup, step, step + 1, rank, kWorld, 1, false, false}; }

RemoteTable table_of(Client& client) {
  TableSpec spec = zeros(1);
  spec.rule = rule_spec(RuleKind::kSgd);
  return value_of(client.create_sparse(spec, kTime));
}

Rejoin claim(uint32_t rank, uint32_t incarnation, uint32_t starts) {
  return {RejoinPart::kClaim, rank + 1u, rank, kWorld, incarnation, starts, 0, 0, 0, 0, {}};
}
Rejoin note(uint32_t rank, uint32_t incarnation, uint64_t steps, uint64_t reached, uint64_t target) {
  return {RejoinPart::kNote, rank + 1u, rank, kWorld, incarnation, 2, steps, reached, target, 0, {}};
}
std::shared_ptr<HostedTable> hosted() {
  TableSpec spec = zeros(1);
  spec.rule = rule_spec(RuleKind::kSgd);
  return std::make_shared<HostedTable>(spec);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rejoin, *boost::unit_test::timeout(60))

BOOST_AUTO_TEST_CASE(a_worker_that_was_never_here_is_told_nothing) {
  Cluster cluster(2);
  auto client = worker(cluster, 0);
  const Rejoined place = value_of(client->rejoin(0, kWorld, kTime));
  BOOST_TEST(place.starts == 1u);
  BOOST_TEST(place.last.group.empty());
  BOOST_TEST(place.last.pending.empty());
}

BOOST_AUTO_TEST_CASE(pushes_of_a_step_that_was_not_finished_are_forgotten) {
  Cluster cluster(2);
  auto dies = worker(cluster, 0), other = worker(cluster, 1);
  const RemoteTable table = table_of(*dies);
  const std::vector<Key> keys = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> ones(keys.size(), 1.0f), threes(keys.size(), 3.0f);
  value_of(dies->rejoin(0, kWorld, kTime));
  value_of(dies->push(table, keys, ones, of_step(0, 0), kTime));

  auto again = worker(cluster, 0);
  const Rejoined place = value_of(again->rejoin(0, kWorld, kTime));
  BOOST_TEST(place.starts == 2u);
  BOOST_TEST(place.last.group.empty());
  BOOST_TEST(again->epoch() > dies->epoch());
  // What the dead one still sends is refused.
  BOOST_TEST(code_of(dies->push(table, keys, ones, of_step(0, 0), kTime)) == ErrorCode::kStaleEpoch);
  BOOST_TEST(code_of(dies->finish_step(end_of(0, 0), kTime)) == ErrorCode::kStaleEpoch);

  value_of(again->push(table, keys, threes, of_step(0, 0), kTime));
  std::thread waits([&] { value_of(other->finish_step(end_of(0, 1), kTime)); });
  value_of(again->finish_step(end_of(0, 0), kTime));
  waits.join();
  BOOST_TEST(pulled(*again, table, keys) == std::vector<float>(keys.size(), -1.5f), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_step_that_one_server_knows_as_finished_is_finished_on_all) {
  Cluster cluster(2);
  auto dies = worker(cluster, 0), other = worker(cluster, 1);
  const RemoteTable table = table_of(*dies);
  const std::vector<Key> keys = {1, 2, 3, 4, 5, 6, 7, 8};
  value_of(dies->rejoin(0, kWorld, kTime));
  value_of(dies->push(table, keys, std::vector<float>(keys.size(), 2.0f), of_step(0, 0), kTime));
  const std::vector<std::byte> position = {std::byte{7}, std::byte{8}};
  StepEnd end = end_of(0, 0);
  const std::vector<uint32_t> second = {1};
  end.position = position;
  end.servers = second;
  BOOST_TEST(code_of(dies->finish_step(end, kSoon)) == ErrorCode::kDeadline);

  auto again = worker(cluster, 0);
  const Rejoined place = value_of(again->rejoin(0, kWorld, kTime));
  BOOST_TEST(place.last.group == kGroup);
  BOOST_TEST(place.last.step == 0u);
  BOOST_TEST(place.last.count == 1u);
  BOOST_TEST((place.last.position == position));
  BOOST_TEST(place.last.pending == std::vector<uint32_t>({0, 1}), boost::test_tools::per_element());
  std::thread waits([&] { value_of(other->finish_step(end_of(0, 1), kTime)); });
  end.servers = place.last.pending;
  value_of(again->finish_step(end, kTime));
  waits.join();
  BOOST_TEST(pulled(*again, table, keys) == std::vector<float>(keys.size(), -1.0f), boost::test_tools::per_element());
  BOOST_TEST(value_of(worker(cluster, 0)->rejoin(0, kWorld, kTime)).last.pending.empty());
}

// The others hold what belongs to a step, and one lacks it: the machine of that one died.
BOOST_AUTO_TEST_CASE(a_server_that_lacks_steps_is_named) {
  Cluster cluster(2);
  auto trains = worker(cluster, 0);
  value_of(trains->rejoin(0, 1, kTime));
  const std::vector<uint32_t> first = {0};
  for (uint64_t step : {0u, 1u}) {
    StepEnd end{kGroup, step, step + 1, 0, 1, 1, false, false};
    end.servers = first;
    value_of(trains->finish_step(end, kTime));
  }
  const auto place = worker(cluster, 0)->rejoin(0, 1, kTime);
  BOOST_TEST(code_of(place) == ErrorCode::kLost);
  BOOST_TEST(message_of(place).starts_with("server 1 (" + cluster.endpoints[1] +
                                           ") knows of 0 of the 2 steps that worker 0 has finished"));
}

BOOST_AUTO_TEST_CASE(a_restarted_worker_tells_what_was_pushed_before_it) {
  Cluster cluster(2);
  auto dies = worker(cluster, 0);
  const RemoteTable table = table_of(*dies);
  const std::vector<Key> keys = {1, 2, 3, 4, 5, 6, 7, 8};
  value_of(dies->rejoin(0, 1, kTime));
  value_of(dies->push(table, keys, std::vector<float>(keys.size(), 2.0f), of_step(0, 0), kTime));
  StepEnd end{kGroup, 0, 1, 0, 1, 1, false, false};
  const std::vector<uint32_t> first = {0};
  end.servers = first;
  value_of(dies->finish_step(end, kTime));

  auto again = worker(cluster, 0);
  const Rejoined place = value_of(again->rejoin(0, 1, kTime));
  BOOST_TEST(place.last.ordinal == 1u);
  BOOST_TEST(place.last.pushes == std::vector<uint64_t>({1, 1}), boost::test_tools::per_element());
  BOOST_TEST(place.last.pending == std::vector<uint32_t>({1}), boost::test_tools::per_element());
  end.servers = place.last.pending;
  value_of(again->finish_step(end, kTime));
  end.servers = {};
  end.step = 1;
  value_of(again->finish_step(end, kTime));
  BOOST_TEST(pulled(*again, table, keys) == std::vector<float>(keys.size(), -2.0f), boost::test_tools::per_element());
}

// The one that has heard of the last finish also has what was pushed after it.
BOOST_AUTO_TEST_CASE(what_was_pushed_after_a_finish_that_some_have_lost_is_forgotten) {
  Cluster cluster(2);
  auto dies = worker(cluster, 0);
  const RemoteTable table = table_of(*dies);
  const std::vector<Key> keys = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> twos(keys.size(), 2.0f);
  value_of(dies->rejoin(0, 1, kTime));
  value_of(dies->push(table, keys, twos, of_step(0, 0), kTime));
  StepEnd end{kGroup, 0, 1, 0, 1, 1, false, false};
  const std::vector<uint32_t> first = {0};
  end.servers = first;
  value_of(dies->finish_step(end, kTime));
  // Server 0 holds its part of the next step, and server 1 is not there yet.
  BOOST_TEST(code_of(dies->push(table, keys, twos, of_step(1, 0), kTime)) == ErrorCode::kLost);

  auto again = worker(cluster, 0);
  const Rejoined place = value_of(again->rejoin(0, 1, kTime));
  BOOST_TEST(place.last.pending == std::vector<uint32_t>({1}), boost::test_tools::per_element());
  BOOST_TEST(code_of(again->check_finishes(0, 1, kTime)) == ErrorCode::kLost);
  end.servers = place.last.pending;
  value_of(again->finish_step(end, kTime));
  value_of(again->check_finishes(0, 1, kTime));
  value_of(again->push(table, keys, twos, of_step(1, 0), kTime));
  end.servers = {};
  end.step = 1;
  value_of(again->finish_step(end, kTime));
  BOOST_TEST(pulled(*again, table, keys) == std::vector<float>(keys.size(), -4.0f), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(it_does_not_wait_where_all_have_been) {
  Cluster cluster(1);
  auto dies = worker(cluster, 0), other = worker(cluster, 1);
  value_of(dies->rejoin(0, kWorld, kTime));
  value_of(other->rejoin(1, kWorld, kTime));
  const auto meet = [&](Client& first, Client& second, const std::string& what) {
    const auto bytes = std::as_bytes(std::span(what));
    std::thread waits([&] { value_of(second.gather("b", 1, kWorld, bytes, kTime)); });
    auto all = value_of(first.gather("b", 0, kWorld, bytes, kTime));
    waits.join();
    return all;
  };
  const auto first = meet(*dies, *other, "one");
  const auto second = meet(*dies, *other, "two");
  auto again = worker(cluster, 0);
  const Rejoined place = value_of(again->rejoin(0, kWorld, kTime));
  BOOST_TEST(place.passed.at("b") == 2u);
  BOOST_TEST((value_of(again->gather("b", 0, kWorld, {}, kTime)) == first));
  BOOST_TEST((value_of(again->gather("b", 0, kWorld, {}, kTime)) == second));
  BOOST_TEST((code_of(again->gather("b", 0, kWorld, {}, kSoon)) == ErrorCode::kDeadline));
  meet(*again, *other, "three");
}

BOOST_AUTO_TEST_CASE(others_learn_who_is_on_its_way) {
  Cluster cluster(1);
  auto client = worker(cluster, 1), other = worker(cluster, 0);
  value_of(client->rejoin(1, kWorld, kTime));
  BOOST_TEST(value_of(other->on_their_way(kTime, kTime)).empty());
  auto again = worker(cluster, 1);
  value_of(again->rejoin(1, kWorld, kTime));
  value_of(again->note_steps(100, 7, 90, kTime));
  const auto late = value_of(other->on_their_way(kTime, kTime));
  BOOST_TEST_REQUIRE(late.size() == 1u);
  BOOST_TEST(late[0].rank == 1u);
  BOOST_TEST(late[0].reached == 7u);
  BOOST_TEST(late[0].target == 90u);
  const std::vector<std::byte> position = {std::byte{7}};
  value_of(again->note_steps(100, 0, 0, kTime, position));
  BOOST_TEST(value_of(other->on_their_way(kTime, kTime)).empty());
  const Rejoined place = value_of(worker(cluster, 1)->rejoin(1, kWorld, kTime));
  BOOST_TEST(place.steps == 100u);
  BOOST_TEST((place.position == position));
}

BOOST_AUTO_TEST_CASE(who_starts_workers_again_says_that_one_is_coming) {
  Cluster cluster(1);
  auto launcher = cluster.client(), other = worker(cluster, 0);
  BOOST_TEST(value_of(launcher->announce(1, kWorld, kTime)) == 0u);
  const auto late = value_of(other->on_their_way(kTime, kTime));
  BOOST_TEST_REQUIRE(late.size() == 1u);
  BOOST_TEST(late[0].rank == 1u);
  BOOST_TEST(late[0].target == 0u);
  auto comes = worker(cluster, 1);
  value_of(comes->rejoin(1, kWorld, kTime));
  BOOST_TEST(value_of(launcher->announce(1, kWorld, kTime)) == comes->epoch());
}

BOOST_AUTO_TEST_CASE(a_claim_that_comes_once_more_leaves_what_was_pushed_since) {
  Steps steps;
  const auto table = hosted();
  steps.rejoin(0, 5, true);
  HeldPush push{table, 1, 1, {1}, {}, {1.0f}};
  push.incarnation = 5;
  value_of(steps.hold(hash_name(kGroup), 0, 0, push));
  steps.rejoin(0, 5, true);
  const FinishStep message{kGroup, 0, 1, 0, 1, 1, 100, false, true, 5};
  BOOST_TEST(value_of(steps.finish(message, patience()))->size() == 1u);
}

BOOST_AUTO_TEST_CASE(groups_of_a_snapshot_know_who_was_replaced) {
  const auto table = hosted();
  const auto find = [&](uint64_t) { return Result<std::shared_ptr<HostedTable>>(table); };
  Steps steps, later;
  HeldPush push{table, 1, 1, {1}, {}, {1.0f}};
  push.incarnation = 5;
  value_of(steps.hold(hash_name(kGroup), 0, 0, push));
  later.rejoin(0, 5, false);
  for (const auto& record : saved(steps)) value_of(later.replay(record.kind, record.bytes, find));
  // What it pushed is its own: asked once more, nothing goes.
  later.rejoin(0, 5, true);
  FinishStep message{kGroup, 0, 1, 0, 1, 1, 100, false, true, 4};
  BOOST_TEST(code_of(later.finish(message, patience())) == ErrorCode::kStaleEpoch);
  message.incarnation = 5;
  BOOST_TEST(value_of(later.finish(message, patience()))->size() == 1u);
}

BOOST_AUTO_TEST_CASE(clocks_do_not_hear_those_who_were_replaced) {
  Clocks clocks;
  Advance message{kGroup, 50, 100, 0, 1, 100, false, false, 4};
  value_of(clocks.advance(message, patience()));
  clocks.rejoin(0, 5);
  message.step = 51;
  BOOST_TEST(code_of(clocks.advance(message, patience())) == ErrorCode::kStaleEpoch);
  message.incarnation = 5;
  message.step = 0;
  message.rest = true;
  value_of(clocks.advance(message, patience()));
}

// A process that hangs on is replaced again and again while it pushes, asks for data and counts its steps.
BOOST_AUTO_TEST_CASE(a_log_has_nothing_of_a_worker_after_its_place_was_taken) {
  const TemporaryFolder folder;
  ServerOptions options;
  options.durable.folder = folder.path().string();
  const std::vector<Key> keys = {1};
  const std::vector<float> one = {1.0f};
  TableSpec spec = zeros(1);
  float answered = 0;
  {
    Cluster cluster(1, options);
    const RemoteTable table = value_of(cluster.client()->create_sparse(spec, kTime));
    for (uint64_t round = 0; round < 20; ++round) {
      auto hangs_on = worker(cluster, 0);
      value_of(hangs_on->rejoin(0, kWorld, kTime));
      std::atomic<uint32_t> at_work{0};
      const auto until_refused = [&](const std::function<Result<void>()>& call) {
        value_of(call());
        ++at_work;
        while (call()) {
        }
      };
      std::thread asks([&] {
        uint64_t call = 0;
        until_refused([&]() -> Result<void> {
          LeaseRequest message;
          message.pass = "train";
          message.shards = uint64_t{1} << 20;
          message.world = kWorld;
          message.call = ++call;
          message.ttl_ms = 60'000;
          message.stride = 1;
          message.take = true;
          FLOTA_TRY(hangs_on->lease(message, kTime));
          return {};
        });
      });
      std::thread counts([&] {
        uint64_t step = 0;
        until_refused([&]() -> Result<void> {
          FLOTA_TRY(hangs_on->advance({"clock" + std::to_string(round), ++step, step, 0, kWorld}, kTime));
          return {};
        });
      });
      std::thread takes_over([&] {
        while (at_work < 3) std::this_thread::yield();
        value_of(worker(cluster, 0)->rejoin(0, kWorld, kTime));
      });
      until_refused([&]() -> Result<void> {
        FLOTA_TRY(hangs_on->push(table, keys, one, {PushKind::kDelta}, kTime));
        ++answered;
        return {};
      });
      asks.join();
      counts.join();
      takes_over.join();
    }
  }
  Cluster cluster(1, options);
  auto client = cluster.client();
  BOOST_TEST(pulled(*client, value_of(client->create_sparse(spec, kTime)), keys)[0] == answered);
}

BOOST_AUTO_TEST_CASE(incarnations_outlive_the_server) {
  Mortal<Rejoins> rejoins;
  value_of(rejoins->claim(claim(1, 5, 1)));
  value_of(rejoins->claim(claim(1, 9, 2)));
  value_of(rejoins->note(note(1, 9, 64, 0, 0)));
  const std::vector<std::byte> place = {std::byte{1}, std::byte{2}};
  Rejoin elsewhere = note(1, 9, 64, 0, 0);
  elsewhere.position = place;
  value_of(rejoins->note(elsewhere));
  for (int time = 0; time < 2; ++time) {
    rejoins.restart();
    BOOST_TEST(rejoins->of(1).incarnation == 9u);
    BOOST_TEST(rejoins->of(1).starts == 2u);
    BOOST_TEST(rejoins->of(1).steps == 64u);
    BOOST_TEST((rejoins->of(1).position == place));
    BOOST_TEST(code_of(rejoins->claim(claim(1, 5, 3))) == ErrorCode::kStaleEpoch);
    rejoins.take_snapshot();
  }
  rejoins.journal().full = true;
  BOOST_TEST(code_of(rejoins->claim(claim(1, 10, 3))) == ErrorCode::kNoSpace);
  BOOST_TEST(rejoins->of(1).incarnation == 9u);
}

BOOST_AUTO_TEST_CASE(finished_steps_outlive_the_server) {
  Finishes finishes;
  const std::vector<std::byte> position = {std::byte{1}, std::byte{2}};
  const std::vector<uint64_t> pushes = {2, 0, 5};
  FinishStep message{kGroup, 7, 8, 1, kWorld, 3, 0, true, false, 4, position, 31, 2, pushes};
  finishes.note(message);
  Finishes later;
  const Records records = saved(finishes);
  replay_all(later, records);
  BOOST_TEST(later.of(1).group == kGroup);
  BOOST_TEST(later.of(1).step == 7u);
  BOOST_TEST(later.of(1).leave);
  BOOST_TEST((later.of(1).position == position));
  BOOST_TEST(later.of(1).ordinal == 31u);
  BOOST_TEST((later.of(1).pushes == pushes));
  BOOST_TEST(later.of(0).group.empty());
  BOOST_TEST(refuses_cut_records<Finishes>(records));
}

BOOST_AUTO_TEST_SUITE_END()
