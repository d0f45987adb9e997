#include "server/steps.h"

#include <thread>

#include "cluster.h"

using namespace flota;
using namespace flota::testing;

namespace {

constexpr const char* kGroup = "train";

PushOptions of_step(uint64_t step, uint32_t rank, float lr = 1) {
  PushOptions options;
  options.lr = lr;
  options.step = step;
  options.group = hash_name(kGroup);
  options.rank = rank;
  return options;
}

StepEnd end_of(uint64_t step, uint32_t rank, uint32_t world, double samples = 1, bool leave = false) {
  return {kGroup, step, step + 1, rank, world, samples, leave, true};
}

// Several workers at once, each with a client of its own. What goes wrong in one is told to the test.
template <class Body>
void in_parallel(const Cluster& cluster, uint32_t world, Body body) {
  std::vector<std::unique_ptr<Client>> clients;
  for (uint32_t rank = 0; rank < world; ++rank) clients.push_back(cluster.client());
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < world; ++rank) threads.emplace_back([&, rank] { body(*clients[rank], rank); });
  for (std::thread& thread : threads) thread.join();
}

TableSpec sgd_from_zero(uint32_t dim) {
  TableSpec spec = zeros(dim);
  spec.rule = rule_spec(RuleKind::kSgd);
  return spec;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(steps)

BOOST_AUTO_TEST_CASE(gradients_of_a_step_are_averaged_by_samples_and_applied_at_its_end) {
  Cluster cluster(2);
  auto table = value_of(cluster.client()->create_sparse(sgd_from_zero(2), kTime));
  auto first = cluster.client();
  auto second = cluster.client();
  const std::vector<Key> common = {1, 2, 3};
  const std::vector<Key> own = {3, 4};
  value_of(first->push(table, common, std::vector<float>{1, 1, 2, 2, 4, 4}, of_step(0, 0), kTime));
  value_of(second->push(table, own, std::vector<float>{8, 8, 16, 16}, of_step(0, 1), kTime));
  const std::vector<Key> all = {1, 2, 3, 4};
  BOOST_TEST(pulled(*first, table, all) == std::vector<float>(8, 0.0f), boost::test_tools::per_element());
  ChangedKeysByTable changed;
  std::thread other([&] { changed = value_of(second->finish_step(end_of(0, 1, 2, 1), kTime)); });
  value_of(first->finish_step(end_of(0, 0, 2, 3), kTime));
  other.join();
  // Three samples against one: three quarters of the first worker's gradients, one quarter of the second's.
  const std::vector<float> expected = {-0.75, -0.75, -1.5, -1.5, -5, -5, -4, -4};
  BOOST_TEST(pulled(*first, table, all) == expected, boost::test_tools::per_element());
  auto keys = changed[table.id];
  std::sort(keys.begin(), keys.end());
  BOOST_TEST(keys == all, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_parameter_is_averaged_too) {
  Cluster cluster(3);
  Slicing slicing;
  slicing.min_block = 8;
  auto table = value_of(cluster.client()->create_dense(
      [] {
        TableSpec spec = uncut(100);
        spec.init = {InitKind::kConstant, 0};
        return spec;
      }(),
      slicing, kTime));
  in_parallel(cluster, 4, [&](Client& client, uint32_t rank) {
    for (uint64_t step = 0; step < 5; ++step) {
      value_of(client.push_dense(table, std::vector<float>(100, static_cast<float>(rank)), of_step(step, rank), kTime));
      value_of(client.finish_step(end_of(step, rank, 4), kTime));
    }
  });
  BOOST_TEST(pulled(*cluster.client(), table) == std::vector<float>(100, -7.5f), boost::test_tools::per_element());
}

// Whatever the threads' order, and however many servers there are.
BOOST_AUTO_TEST_CASE(runs_are_the_same_bit_for_bit) {
  std::vector<Contents> runs;
  for (uint32_t servers : {1u, 1u, 2u, 5u}) {
    Cluster cluster(servers);
    TableSpec spec = sparse_spec(4);
    spec.rule = rule_spec(RuleKind::kAdagrad);
    auto table = value_of(cluster.client()->create_sparse(spec, kTime));
    in_parallel(cluster, 3, [&](Client& client, uint32_t rank) {
      for (uint64_t step = 0; step < 20; ++step) {
        auto keys = some_keys(50, step * 3 + rank);
        auto values = some_values(keys.size() * 4, step * 7 + rank);
        value_of(client.push(table, keys, values, of_step(step, rank, 0.1f), kTime));
        value_of(client.finish_step(end_of(step, rank, 3, 1.0 + rank), kTime));
      }
    });
    runs.push_back(exported(*cluster.client(), table));
  }
  for (const Contents& run : runs) BOOST_TEST((run == runs[0]));
}

BOOST_AUTO_TEST_CASE(who_leaves_is_not_waited_for) {
  Cluster cluster(2);
  auto table = value_of(cluster.client()->create_sparse(sgd_from_zero(1), kTime));
  const std::vector<Key> key = {7};
  for (int run = 0; run < 2; ++run) {  // when all have left, a second training may begin
    in_parallel(cluster, 3, [&](Client& client, uint32_t rank) {
      const uint64_t steps = 2 + rank;
      for (uint64_t step = 0; step < steps; ++step) {
        value_of(client.push(table, key, std::vector<float>{6}, of_step(step, rank), kTime));
        value_of(client.finish_step(end_of(step, rank, 3), kTime));
      }
      value_of(client.finish_step(end_of(steps, rank, 3, 0, true), kTime));
    });
  }
  // Steps 0 to 3 had 3, 3, 2 and 1 workers, and the average was 6 in each.
  BOOST_TEST(pulled(*cluster.client(), table, key)[0] == -48.0f);
}

BOOST_AUTO_TEST_CASE(the_missing_are_named) {
  Cluster cluster(1);
  auto client = cluster.client();
  auto other = cluster.client();
  std::thread thread([&] { value_of(other->finish_step(end_of(40, 1, 3), kTime)); });
  std::thread third([&] { value_of(cluster.client()->finish_step(end_of(40, 2, 3), kTime)); });
  value_of(client->finish_step(end_of(40, 0, 3), kTime));
  thread.join();
  third.join();
  auto late = client->finish_step(end_of(41, 0, 3), milliseconds(300));
  BOOST_TEST(code_of(late) == ErrorCode::kDeadline);
  BOOST_TEST(late.error().message.find("worker 0 waited in vain for step 41: worker 1 finished nothing since step 40, "
                                       "worker 2 finished nothing since step 40") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_finish_that_comes_again_is_answered_again) {
  Cluster cluster(1);
  auto client = cluster.client();
  auto table = value_of(client->create_sparse(sgd_from_zero(1), kTime));
  const std::vector<Key> key = {7};
  for (uint64_t step = 0; step < 3; ++step) {
    value_of(client->push(table, key, std::vector<float>{1}, of_step(step, 0), kTime));
    for (int times = 0; times < 3; ++times) value_of(client->finish_step(end_of(step, 0, 1), kTime));
  }
  BOOST_TEST(pulled(*client, table, key)[0] == -3.0f);
}

// A training begins a group after each of its barriers.
BOOST_AUTO_TEST_CASE(groups_that_are_over_are_forgotten) {
  Steps all;
  for (int number = 0; number < 10'000; ++number) {
    FinishStep message{"train/" + std::to_string(number), 0, 0, 0, 1, 0, 100, true, false};
    value_of(all.finish(message, patience()));
  }
}

BOOST_AUTO_TEST_CASE(steps_out_of_step_are_refused) {
  Cluster cluster(1);
  auto client = cluster.client();
  auto table = value_of(client->create_sparse(sgd_from_zero(1), kTime));
  const std::vector<Key> key = {7};
  const std::vector<float> one = {1};
  value_of(client->finish_step(end_of(5, 0, 1), kTime));
  BOOST_TEST(code_of(client->finish_step(end_of(8, 0, 1), kTime)) == ErrorCode::kLost);
  BOOST_TEST(code_of(client->push(table, key, one, of_step(2, 0), kTime)) == ErrorCode::kInvalidArgument);
  BOOST_TEST(code_of(client->finish_step(end_of(6, 0, 2), kTime)) == ErrorCode::kInvalidArgument);
  auto ahead = client->push(table, key, one, of_step(9, 0), kTime);
  BOOST_TEST(code_of(ahead) == ErrorCode::kLost);
  BOOST_TEST(ahead.error().message.find("worker 0 is at step 9, this server and the others are at step 6") !=
             std::string::npos);
  PushOptions assignment = of_step(6, 0);
  assignment.kind = PushKind::kAssign;
  BOOST_TEST(code_of(client->push(table, key, one, assignment, kTime)) == ErrorCode::kInvalidArgument);
  // And all of that has left no trace.
  value_of(client->push(table, key, one, of_step(6, 0), kTime));
  value_of(client->finish_step(end_of(6, 0, 1), kTime));
  BOOST_TEST(pulled(*client, table, key)[0] == -1.0f);
}

// As a server whose machine died: its log ends earlier than what it has answered for.
BOOST_AUTO_TEST_CASE(a_server_that_lacks_what_it_answered_for_refuses_the_finish) {
  TableSpec spec = sgd_from_zero(1);
  const auto table = std::make_shared<HostedTable>(spec);
  const auto hold = [&](Steps& steps, uint64_t step) {
    value_of(steps.hold(hash_name(kGroup), 0, step, {table, 1, 1, {1}, {}, {1.0f}}));
  };
  const std::vector<uint64_t> pushes = {7, 2};
  FinishStep first{kGroup, 0, 1, 0, 1, 1, 100, false, false, 0, {}, 1, 1, pushes};
  FinishStep second{kGroup, 1, 2, 0, 1, 1, 100, false, false, 0, {}, 2, 1, pushes};

  Steps all;
  hold(all, 0);
  const auto one_of_two = all.finish(first, patience());
  BOOST_TEST(code_of(one_of_two) == ErrorCode::kLost);
  BOOST_TEST(
      message_of(one_of_two).starts_with("worker 0 was answered for 2 pushes of step 0, and this server holds 1"));
  hold(all, 0);
  value_of(all.finish(first, patience()));
  value_of(all.finish(first, patience()));  // again, as after a broken connection
  BOOST_TEST(code_of(all.finish(second, patience())) == ErrorCode::kLost);
  hold(all, 1);
  hold(all, 1);
  value_of(all.finish(second, patience()));

  // What an earlier incarnation pushed was to be forgotten: it would count beside what this one has pushed.
  FinishStep third{kGroup, 2, 3, 0, 1, 1, 100, false, false, 9, {}, 3, 1, pushes};
  hold(all, 2);
  HeldPush mine{table, 1, 1, {1}, {}, {1.0f}};
  mine.incarnation = 9;
  for (int i = 0; i < 2; ++i) value_of(all.hold(hash_name(kGroup), 0, 2, mine));
  BOOST_TEST(code_of(all.finish(third, patience())) == ErrorCode::kLost);

  // It knows nothing of the group, and was to hold nothing of this step: what it lacks are whole steps.
  Steps none;
  second.pushes = {};
  const auto whole_steps = none.finish(second, patience());
  BOOST_TEST(code_of(whole_steps) == ErrorCode::kLost);
  BOOST_TEST(message_of(whole_steps).starts_with("worker 0 has finished 1 steps, and this server knows of 0"));
  second.ordinal = 0;  // it does not say
  value_of(none.finish(second, patience()));
}

BOOST_AUTO_TEST_SUITE_END()
