#include <map>
#include <thread>

#include "lease_worker.h"
#include "memory_journal.h"

using namespace flota;
using namespace flota::testing;

namespace {

constexpr uint32_t kRanks = 4;

Deadline now() { return Deadline::after(milliseconds(0)); }

template <class Message>
std::string text_of(const Message& message) {
  Writer out;
  message.encode(out);
  return hex(out.bytes());
}

std::string said(Leases& leases, const LeaseRequest& message) {
  auto reply = leases.ask(message, now());
  return reply ? text_of(*reply) : message_of(reply);
}

// Questions of a few workers about a few epochs. What they tell need not be what they hold.
struct Workers {
  std::mt19937_64 random;
  uint64_t calls = 0;
  uint64_t epoch = 0;
  std::map<uint32_t, uint64_t> incarnations = {};

  LeaseRequest any() {
    LeaseRequest message;
    if (random() % 60 == 0) ++epoch;
    message.pass = random() % 5 == 0 ? "test" : "train";
    message.epoch = epoch + random() % 2;
    message.shards = random() % 40 == 0 ? 9 : 8;
    message.rank = static_cast<uint32_t>(random() % kRanks);
    message.world = kRanks;
    if (random() % 40 == 0) ++incarnations[message.rank];
    message.incarnation = 5 + incarnations[message.rank] - (random() % 40 == 0);
    message.call = random() % 10 == 0 ? calls : ++calls;
    message.ttl_ms = kLong;
    message.stride = random() % 3 == 0 ? 2 : 1;
    message.first = random() % message.stride;
    message.take = random() % 4 != 0;
    for (uint64_t count = random() % 3; count > 0; --count) {
      constexpr uint64_t kFlags[] = {0, 0, 0, kDone, kReleased};
      message.progress.push_back({random() % 8, random() % 50, kFlags[random() % 5]});
    }
    value_of(message.check());
    return message;
  }
};

Records some_records() {
  Mortal<Leases> leases;
  Worker a{*leases, 0};
  Worker b{*leases, 1};
  a.shard();
  b.shard({{3, 7, 0}});
  a.tell({{0, 5, kDone}});
  Records records = saved(*leases);
  b.tell({{1, 5, kReleased}});
  a.epoch = 1;
  a.shard();
  value_of(leases->restore(leases->state()));
  b.incarnation = 4;
  b.shard();
  const Records& changes = leases.journal().records;
  records.insert(records.end(), changes.end() - 6, changes.end());
  return records;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(leases_state, *boost::unit_test::timeout(120))

BOOST_AUTO_TEST_CASE(leases_that_die_answer_as_those_that_live) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Leases living;
    Mortal<Leases> mortal;
    Workers workers{std::mt19937_64(seed)};
    for (int call = 0; call < 300; ++call) {
      const LeaseRequest message = workers.any();
      const std::string answer = said(living, message);
      BOOST_TEST(said(*mortal, message) == answer);
      if (workers.random() % 3 == 0) mortal.restart();
      BOOST_TEST(said(*mortal, message) == said(living, message));  // comes again
      if (workers.random() % 50 == 0) mortal.take_snapshot();
      if (workers.random() % 100 == 0) {
        const LeaseStates states = living.state();
        value_of(living.restore(states));
        value_of(mortal->restore(states));
      }
      BOOST_TEST(text_of(mortal->state()) == text_of(living.state()));
      BOOST_TEST(mortal->counts().granted == living.counts().granted);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_snapshot_in_the_middle_of_training_is_of_one_moment) {
  constexpr uint64_t kShards = 400;
  Mortal<Leases> mortal;
  const auto snapshots = snapshots_during(*mortal, mortal.journal(), kRanks, [&](size_t rank) {
    Worker worker{*mortal, static_cast<uint32_t>(rank), kShards};
    worker.tell({{kShards - 1, 1, 0}});
    for (uint64_t i = 0; i < kShards / kRanks / 2; ++i) {
      const uint64_t shard = worker.take().shard;
      worker.tell({{shard, i, i % 5 == 0 ? kReleased : kDone}});
    }
  });
  for (const Snapshot& snapshot : snapshots) {
    Leases leases;
    replay_after(leases, snapshot, mortal.journal().records);
    BOOST_TEST(text_of(leases.state()) == text_of(mortal->state()));
    BOOST_TEST(leases.counts().granted == mortal->counts().granted);
  }
}

BOOST_AUTO_TEST_CASE(what_has_expired_stays_another_s) {
  Mortal<Leases> leases;
  Worker late{*leases, 0};
  late.ttl = kShort;
  BOOST_TEST(late.shard() == 0u);
  std::this_thread::sleep_for(milliseconds(kShort + 20));
  Worker next{*leases, 1};
  const LeaseRequest request = next.request(true);
  const std::string answer = said(*leases, request);
  leases.restart();
  BOOST_TEST(said(*leases, request) == answer);
  BOOST_TEST(leases->counts().expired == 1u);
  Worker again{*leases, 0};
  BOOST_TEST((again.tell({{0, 5, 0}}).lost == std::vector<uint64_t>{0}));
}

BOOST_AUTO_TEST_CASE(leases_begin_anew_when_somebody_asks_after_a_restart) {
  Mortal<Leases> leases;
  Worker a{*leases, 0, 1};
  a.ttl = kShort;
  a.shard();
  leases.take_snapshot();
  leases.restart();
  std::this_thread::sleep_for(milliseconds(kShort + 20));
  BOOST_TEST((Worker{*leases, 1, 1}.take().outcome == LeaseOutcome::kNone));
  BOOST_TEST((Worker{*leases, 1, 1}.wait().outcome == LeaseOutcome::kGranted));  // when it has ended after all
  BOOST_TEST(leases->counts().expired == 1u);
}

BOOST_AUTO_TEST_CASE(that_a_worker_lives_is_not_written) {
  Mortal<Leases> leases;
  Worker a{*leases, 0};
  a.shard();
  a.tell({{0, 5, 0}});
  const size_t before = leases.journal().records.size();
  for (int times = 0; times < 5; ++times) a.tell({{0, 5, 0}});
  BOOST_TEST(leases.journal().records.size() == before);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_written_has_not_happened) {
  Mortal<Leases> leases;
  Leases living;
  Workers workers{std::mt19937_64(3)};
  for (int call = 0; call < 200; ++call) {
    const LeaseRequest message = workers.any();
    leases.journal().full = true;
    const auto refused = leases->ask(message, now());
    leases.journal().full = false;
    if (call % 20 == 0) leases.restart();
    const std::string answer = said(living, message);
    if (refused) BOOST_TEST(text_of(*refused) == answer);  // there was nothing to write
    BOOST_TEST(said(*leases, message) == (refused ? said(living, message) : answer));
    BOOST_TEST(text_of(leases->state()) == text_of(living.state()));
  }
  leases.journal().full = true;
  BOOST_TEST(code_of(leases->restore({})) == ErrorCode::kNoSpace);
  BOOST_TEST(text_of(leases->state()) == text_of(living.state()));
}

BOOST_AUTO_TEST_CASE(who_is_heard_keeps_its_leases_while_the_disk_is_full) {
  Mortal<Leases> leases;
  Worker holds{*leases, 0}, wants{*leases, 1};
  holds.shards = wants.shards = 1;
  holds.ttl = kShort;
  const uint64_t shard = holds.take().shard;
  leases.journal().full = true;
  uint64_t samples = 0;
  for (const auto enough = Deadline::after(milliseconds(3 * kShort)); !enough.passed();) {
    const auto told = leases->ask(holds.request(false, {{shard, ++samples, 0}}), patience());
    BOOST_TEST_REQUIRE(code_of(told) == ErrorCode::kNoSpace);
    std::this_thread::sleep_for(milliseconds(1));
  }
  leases.journal().full = false;
  BOOST_TEST(value_of(wants.try_take()).outcome == LeaseOutcome::kNone);
}

BOOST_AUTO_TEST_CASE(damaged_records_are_refused) {
  const Records records = some_records();
  BOOST_TEST(refuses_cut_records<Leases>(records));
  std::mt19937_64 random(2);
  replay_damaged<Leases>(records, random, [](Leases& leases) {
    for (uint32_t rank : {0u, 1u}) {
      Worker worker{leases, rank};
      worker.incarnation = 9;
      for (uint64_t epoch : {0u, 1u}) {
        worker.epoch = epoch;
        static_cast<void>(worker.try_take({{1, 2, 0}, {2, 9, kDone}}));
      }
    }
    static_cast<void>(saved(leases));
  });
}

BOOST_AUTO_TEST_SUITE_END()
