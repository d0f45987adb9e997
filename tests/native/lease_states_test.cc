// Epochs of leases: several at once, the end of one, and what a checkpoint keeps of them.
#include <string>
#include <thread>

#include "lease_worker.h"

using namespace flota;
using namespace flota::testing;

namespace {

// The shards that are done, as text: "0-3 5-6".
std::string done_in(const LeaseState& state) {
  std::string text;
  for (const ShardRun& run : state.done) {
    text += (text.empty() ? "" : " ") + std::to_string(run.begin) + "-" + std::to_string(run.end);
  }
  return text;
}

std::string samples_in(const LeaseState& state) {
  std::string text;
  for (const ShardSamples& one : state.partial) {
    text += (text.empty() ? "" : " ") + std::to_string(one.shard) + ":" + std::to_string(one.samples);
  }
  return text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(lease_states, *boost::unit_test::timeout(120))

BOOST_AUTO_TEST_CASE(an_epoch_that_is_over_stays_over) {
  Leases leases;
  Worker a{leases, 0, 1};
  a.epoch = 5;
  a.shard();
  BOOST_TEST(a.tell({{0, 1, kDone}}).left == 0u);
  for (uint64_t epoch : {5u, 3u, 0u}) {  // earlier ones that nobody has opened are over too
    a.epoch = epoch;
    a.shards = 7;  // nobody knows any more how many there were
    BOOST_TEST(a.wait().outcome == LeaseOutcome::kOver);
    const LeaseReply told = a.tell({{0, 1, 0}, {3, 2, kDone}});
    BOOST_TEST(told.outcome == LeaseOutcome::kNoted);
    BOOST_TEST(told.left == 0u);
    BOOST_TEST((told.lost == std::vector<uint64_t>{0}));
  }
  a.epoch = 6;
  BOOST_TEST(a.shard() == 0u);
  BOOST_TEST(leases.state().epochs.size() == 1u);
}

BOOST_AUTO_TEST_CASE(several_epochs_can_be_open_and_the_oldest_of_nine_is_closed) {
  Leases leases;
  Worker a{leases, 0, 3};
  for (a.epoch = 0; a.epoch < 8; ++a.epoch) BOOST_TEST(a.shard() == 0u);
  BOOST_TEST(leases.state().epochs.size() == 8u);
  // One in the middle ends, those below go on.
  a.epoch = 4;
  a.tell({{0, 1, kDone}, {1, 1, kDone}, {2, 1, kDone}});
  a.epoch = 2;
  BOOST_TEST(a.shard() == 1u);
  a.epoch = 8;
  BOOST_TEST(a.shard() == 0u);
  Worker b{leases, 1, 3};
  b.shard();
  b.shard();
  LeaseReply waited;
  std::thread waiting([&] { waited = b.wait(); });
  a.epoch = 9;
  BOOST_TEST(a.shard() == 0u);
  waiting.join();
  BOOST_TEST(waited.outcome == LeaseOutcome::kOver);
  a.epoch = 0;
  BOOST_TEST(a.take().outcome == LeaseOutcome::kOver);
  BOOST_TEST(leases.state().epochs.size() == 8u);
}

BOOST_AUTO_TEST_CASE(an_epoch_older_than_eight_open_ones_is_over) {
  Leases leases;
  Worker a{leases, 0, 3};
  for (a.epoch = 10; a.epoch < 18; ++a.epoch) a.shard();
  a.epoch = 9;
  BOOST_TEST(a.take().outcome == LeaseOutcome::kOver);
  BOOST_TEST(leases.state().epochs.front().epoch == 10u);
}

BOOST_AUTO_TEST_CASE(workers_that_disagree_about_the_number_of_shards_are_told_so) {
  Leases leases;
  Worker{leases, 0, 4}.shard();
  auto other = Worker{leases, 1, 5}.try_take();
  BOOST_TEST(code_of(other) == ErrorCode::kInvalidArgument);
  BOOST_TEST(message_of(other) == "pass 'train', epoch 0: worker 1 says there are 5 shards, others say 4");
}

BOOST_AUTO_TEST_CASE(the_number_of_passes_is_limited) {
  Leases leases;
  Worker a{leases, 0, 1};
  for (uint64_t i = 0; i < kMaxPasses; ++i) {
    a.pass = "pass " + std::to_string(i);
    a.shard();
  }
  a.pass = "one more";
  BOOST_TEST(code_of(a.try_take()) == ErrorCode::kTooLarge);
  // Those that are over are forgotten for new ones.
  a.pass = "pass 7";
  BOOST_TEST(a.tell({{0, 1, kDone}}).left == 0u);
  a.pass = "one more";
  a.shard();
  a.pass = "two more";
  BOOST_TEST(code_of(a.try_take()) == ErrorCode::kTooLarge);
}

BOOST_AUTO_TEST_CASE(a_state_tells_what_was_trained) {
  Leases leases;
  BOOST_TEST(leases.state().epochs.empty());
  Worker a{leases, 0, 10};
  a.tell({{0, 1, kDone}, {1, 1, kDone}, {4, 8, 0}, {5, 1, kDone}, {9, 1, kDone}, {2, 3, 0}});
  a.shard();
  Worker other{leases, 0, 1};
  other.pass = "eval";
  other.tell({{0, 1, kDone}});
  const LeaseStates states = leases.state();
  value_of(states.check());
  BOOST_TEST_REQUIRE(states.epochs.size() == 2u);
  const LeaseState& eval = states.epochs[0];
  BOOST_TEST(eval.pass == "eval");
  BOOST_TEST(eval.shards == 0u);
  BOOST_TEST(eval.over_below == 1u);
  const LeaseState& train = states.epochs[1];
  BOOST_TEST(train.pass == "train");
  BOOST_TEST(train.epoch == 0u);
  BOOST_TEST(train.shards == 10u);
  BOOST_TEST(train.over_below == 0u);
  BOOST_TEST(done_in(train) == "0-2 5-6 9-10");
  BOOST_TEST(samples_in(train) == "2:3 4:8");
}

BOOST_AUTO_TEST_CASE(what_was_restored_goes_on_where_it_was_and_is_nobodys) {
  Leases leases;
  Worker a{leases, 0, 6};
  a.epoch = 3;
  a.tell({{0, 1, kDone}, {1, 40, 0}, {2, 1, kDone}});
  Worker over{leases, 0, 1};
  over.pass = "eval";
  over.tell({{0, 1, kDone}});

  Leases again;
  Worker wrong{again, 0, 2};
  wrong.shard();
  value_of(again.restore(leases.state()));
  BOOST_TEST(again.state().epochs.size() == 2u);
  Worker b{again, 1, 6};
  b.epoch = 3;
  const LeaseReply first = b.take();
  BOOST_TEST(first.shard == 1u);
  BOOST_TEST(first.samples == 40u);
  BOOST_TEST(first.left == 4u);
  BOOST_TEST(b.shard() == 3u);
  // Who was in the middle of one when the server was restarted goes on with it.
  Worker c{again, 2, 6};
  c.epoch = 3;
  BOOST_TEST(c.tell({{4, 2, 0}}).lost.empty());
  BOOST_TEST(b.shard() == 5u);
  Worker eval{again, 0, 1};
  eval.pass = "eval";
  BOOST_TEST(eval.take().outcome == LeaseOutcome::kOver);
}

BOOST_AUTO_TEST_CASE(a_call_from_before_a_restore_is_a_new_one) {
  Leases leases;
  Worker a{leases, 0};
  const LeaseRequest call = a.request(true);
  value_of(leases.ask(call, patience()));
  value_of(leases.restore({{{"train", 0, 4, 0, {{0, 2}}, {}}}}));
  BOOST_TEST(value_of(leases.ask(call, patience())).shard == 2u);
}

BOOST_AUTO_TEST_CASE(who_waits_is_sent_to_ask_again_by_a_restore) {
  Leases leases;
  Worker a{leases, 0, 1};
  a.shard();
  LeaseReply waited;
  std::thread waiting([&] { waited = Worker{leases, 1, 1}.wait(); });
  value_of(leases.restore({}));
  waiting.join();
  // It came either before the restore or after it.
  BOOST_TEST((waited.outcome == LeaseOutcome::kNone || waited.shard == 0u));
}

BOOST_AUTO_TEST_CASE(a_state_that_cannot_be_is_refused_and_changes_nothing) {
  const LeaseState good{"train", 3, 10, 2, {{0, 2}, {4, 6}}, {{2, 5}, {6, 1}}};
  const auto changed = [&](auto change) {
    LeaseState state = good;
    change(state);
    return LeaseStates{{state}};
  };
  const std::vector<LeaseStates> nonsense = {
      changed([](LeaseState& s) { s.pass = ""; }),
      changed([](LeaseState& s) { s.pass = std::string(256, 'x'); }),
      changed([](LeaseState& s) { s.shards = kMaxDataShards + 1; }),
      changed([](LeaseState& s) { s.shards = 5; }),
      changed([](LeaseState& s) { s.shards = 0; }),
      changed([](LeaseState& s) { s.epoch = ~uint64_t{0}; }),
      changed([](LeaseState& s) { s.over_below = ~uint64_t{0}; }),
      changed([](LeaseState& s) { s.done[1] = {1, 3}; }),
      changed([](LeaseState& s) { s.done[1] = {5, 5}; }),
      changed([](LeaseState& s) { s.done[1] = {6, 4}; }),
      changed([](LeaseState& s) { s.done[1] = {9, 11}; }),
      changed([](LeaseState& s) { s = {"train", 3, 10, 2, {{0, 10}}, {}}; }),
      changed([](LeaseState& s) { s.partial[0].shard = 1; }),
      changed([](LeaseState& s) { s.partial[1].shard = 4; }),
      changed([](LeaseState& s) { s.partial[1].shard = 2; }),
      changed([](LeaseState& s) { s.partial[1].shard = 10; }),
      changed([](LeaseState& s) { s.partial[1].samples = 0; }),
      LeaseStates{{good, good}},
      LeaseStates{{good, {"train", 0, 0, 2, {}, {}}}},
      LeaseStates{{{"train", 0, 0, 2, {}, {}}, good}},
      LeaseStates{{good, {"train", 4, 10, 3, {}, {}}}},
  };
  Leases leases;
  value_of(leases.restore({{good, {"train", 4, 1, 2, {}, {}}, {"eval", 0, 0, 7, {}, {}}}}));
  for (size_t i = 0; i < nonsense.size(); ++i) {
    BOOST_TEST(code_of(leases.restore(nonsense[i])) == ErrorCode::kInvalidArgument, "state " << i << " was accepted");
  }
  LeaseStates nine;
  for (uint64_t epoch = 0; epoch < 9; ++epoch) nine.epochs.push_back({"train", epoch, 1, 0, {}, {}});
  BOOST_TEST(code_of(leases.restore(nine)) == ErrorCode::kInvalidArgument);
  LeaseStates many;
  for (uint64_t i = 0; i <= kMaxPasses; ++i) many.epochs.push_back({std::to_string(i), 0, 1, 0, {}, {}});
  BOOST_TEST(code_of(leases.restore(many)) == ErrorCode::kTooLarge);
  BOOST_TEST(leases.state().epochs.size() == 3u);
}

BOOST_AUTO_TEST_CASE(a_question_that_cannot_be_is_refused) {
  Leases leases;
  Worker worker{leases};
  const auto refused = [&](auto change) {
    LeaseRequest message = worker.request(true, {{1, 2, 0}});
    change(message);
    return code_of(message.check());
  };
  BOOST_TEST(refused([](LeaseRequest&) {}) == kNoError);
  const std::vector<void (*)(LeaseRequest&)> changes = {
      [](LeaseRequest& m) { m.pass = ""; },
      [](LeaseRequest& m) { m.pass = std::string(256, 'x'); },
      [](LeaseRequest& m) { m.epoch = ~uint64_t{0}; },
      [](LeaseRequest& m) { m.shards = 0; },
      [](LeaseRequest& m) { m.shards = kMaxDataShards + 1; },
      [](LeaseRequest& m) { m.world = 0; },
      [](LeaseRequest& m) { m.rank = m.world; },
      [](LeaseRequest& m) { m.ttl_ms = 99; },
      [](LeaseRequest& m) { m.ttl_ms = 24 * 3600 * 1000 + 1; },
      [](LeaseRequest& m) { m.stride = 0; },
      [](LeaseRequest& m) { m.first = 1; },
      [](LeaseRequest& m) { m.stride = ~uint64_t{0}; },
      [](LeaseRequest& m) { m.progress[0].shard = 4; },
      [](LeaseRequest& m) { m.progress[0].flags = 4; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    BOOST_TEST(refused(changes[i]) == ErrorCode::kInvalidArgument, "question " << i << " was accepted");
  }
}

BOOST_AUTO_TEST_CASE(as_many_shards_as_may_be_are_handed_out_without_looking_through_all_of_them) {
  Leases leases;
  constexpr uint32_t kWorld = 64;
  std::vector<Worker> workers;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    workers.push_back({leases, rank, kMaxDataShards});
    workers.back().first = rank;
    workers.back().stride = kWorld;
  }
  std::vector<Progress> progress(kWorld);
  for (uint64_t i = 0; i < kMaxDataShards / 8; ++i) {
    const LeaseReply reply = workers[i % kWorld].take(progress[i % kWorld]);
    BOOST_TEST_REQUIRE(reply.shard == i);
    progress[i % kWorld] = {{reply.shard, 1, kDone}};
  }
  const LeaseState state = leases.state().epochs[0];
  BOOST_TEST(done_in(state) == "0-" + std::to_string(kMaxDataShards / 8 - kWorld));
}

BOOST_AUTO_TEST_SUITE_END()
