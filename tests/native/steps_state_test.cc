#include "memory_journal.h"
#include "server/steps.h"

using namespace flota;
using namespace flota::testing;

namespace {

constexpr uint32_t kWorld = 3;
constexpr uint64_t kKeys = 20;
constexpr size_t kDim = 3;

Deadline now() { return Deadline::after(milliseconds(0)); }

// A push by its seed: to rows or to a parameter.
struct PushRecord {
  uint64_t group = 0;
  uint64_t step = 0;
  uint64_t seed = 0;
  uint64_t rank = 0;
};

// Steps with the tables that they apply to; its records are those of the steps and of the pushes.
struct Training {
  std::map<uint64_t, std::shared_ptr<HostedTable>> tables;
  std::unique_ptr<Steps> steps = std::make_unique<Steps>();
  Journal* journal = nullptr;

  Training() {
    TableSpec parameter = dense_spec(7, RuleKind::kAdam);
    parameter.blocks = {{0, 0, 4}, {2, 4, 3}};
    for (const TableSpec& spec : {sparse_spec(kDim, RuleKind::kAdagrad), parameter}) {
      tables[Registry::id_of(spec.name)] = std::make_shared<HostedTable>(spec);
    }
  }
  void set_journal(Journal* to) {
    journal = to;
    steps->set_journal(to);
  }
  Freeze freeze() { return steps->freeze(); }
  Result<void> save(Journal& out) const { return steps->save(out); }
  Result<void> replay(RecordKind kind, std::span<const std::byte> payload) {
    if (kind == RecordKind::kRequest) return hold(*reinterpret_cast<const PushRecord*>(payload.data()));
    return steps->replay(kind, payload, [this](uint64_t id) -> Result<std::shared_ptr<HostedTable>> {
      const auto found = tables.find(id);
      if (found == tables.end()) return Error{ErrorCode::kUnknownTable, "no such table"};
      return found->second;
    });
  }

  HeldPush push_of(uint64_t seed) {
    std::mt19937_64 random(seed);
    HeldPush push{tables.at(Registry::id_of(seed % 3 == 0 ? "weights" : "rows")), 0.1f, 0.5f, {}, {}, {}};
    size_t values = 0;
    if (push.table->dense) {
      for (size_t place : {0u, 1u}) {
        if (random() % 2 == 0) continue;
        push.places.push_back(place);
        values += push.table->dense->block(place).length;
      }
    } else {
      for (Key key = 0; key < kKeys; ++key) {
        if (random() % 3 == 0) push.keys.push_back(key);
      }
      values = push.keys.size() * kDim;
      if (seed % 2 == 0) push.shows.assign(push.keys.size(), 2.0f);
      if (seed % 4 == 0) push.clicks.assign(push.keys.size(), 1.0f);
    }
    for (size_t i = 0; i < values; ++i) push.values.push_back(static_cast<float>(random() % 1000) / 1000 - 0.5f);
    return push;
  }
  Result<void> hold(const PushRecord& push, Journal* to = nullptr) {
    return steps->hold(push.group, static_cast<uint32_t>(push.rank), push.step, push_of(push.seed),
                       [&]() -> Result<void> {
                         if (to == nullptr) return {};
                         return to->write(RecordKind::kRequest, {std::as_bytes(std::span(&push, 1))});
                       });
  }

  std::string said(const PushRecord& push) { return message_of(hold(push, journal)); }
  std::string said(const FinishStep& message) {
    auto changed = steps->finish(message, now());
    if (!changed) return message_of(changed);
    std::string text = "applied";
    for (const ChangedRows& rows : **changed) {
      text += " " + std::to_string(rows.table) + ":";
      for (Key key : rows.keys) text += " " + std::to_string(key);
    }
    return text;
  }

  std::vector<uint32_t> bits() {
    std::vector<float> values(kKeys * kDim + 7);
    std::vector<Key> keys(kKeys);
    for (Key key = 0; key < kKeys; ++key) keys[key] = key;
    const auto all = std::span(values);
    tables.at(Registry::id_of("rows"))->sparse->pull(keys, all.first(kKeys * kDim), Missing::kInitial);
    tables.at(Registry::id_of("weights"))->dense->pull(0, all.subspan(kKeys * kDim, 4));
    tables.at(Registry::id_of("weights"))->dense->pull(1, all.subspan(kKeys * kDim + 4, 3));
    return bits_of(values);
  }
};

// Dies now and then. Tables are not the steps' to save: they are made again by all records there ever were.
struct MortalTraining {
  MemoryJournal journal;
  Records snapshot;
  size_t at = 0;  // records that came before the snapshot
  std::unique_ptr<Training> training;
  std::vector<std::unique_ptr<Training>> before;

  MortalTraining() { restart(); }
  void take_snapshot() {
    snapshot = saved(*training);
    at = journal.records.size();
  }
  // The one before stays, for comparison.
  void restart() {
    const Records& all = journal.records;
    auto next = std::make_unique<Training>();
    replay_all(*next, {all.begin(), all.begin() + static_cast<ptrdiff_t>(at)});
    next->steps = std::make_unique<Steps>();
    replay_all(*next, snapshot);
    replay_all(*next, {all.begin() + static_cast<ptrdiff_t>(at), all.end()});
    next->set_journal(&journal);
    before.push_back(std::exchange(training, std::move(next)));
  }
};

// What workers of two groups do: pushes and finishes of their steps, and things that are refused.
struct Workers {
  std::mt19937_64 random;
  uint64_t steps[2] = {5, 9};

  static std::string name(uint64_t group) { return "train/" + std::to_string(group); }
  uint64_t step_of(uint64_t group) { return steps[group] + (random() % 10 == 0 ? random() % 3 - 1 : 0); }
  uint32_t rank() { return static_cast<uint32_t>(random() % kWorld); }
  PushRecord push() {
    const uint64_t group = random() % 2;
    return {hash_name(name(group)), step_of(group), random() % 1000, rank()};
  }
  FinishStep finish() {
    const uint64_t group = random() % 2;
    FinishStep message{name(group), step_of(group), 0, rank(), kWorld, 0, 100, random() % 15 == 0, true};
    message.count = message.step + 1;
    message.samples = static_cast<double>(1 + message.rank + (random() % 5 == 0));
    if (random() % 20 == 0) ++message.world;
    return message;
  }
  void hear(const FinishStep& message, const std::string& said) {
    uint64_t& step = steps[message.group == name(1)];
    if (said.starts_with("applied") && message.step == step) ++step;
  }
};

Records some_records() {
  MortalTraining mortal;
  Training& training = *mortal.training;
  const uint64_t group = hash_name("a");
  for (uint64_t rank = 0; rank < 2; ++rank) {
    training.said(PushRecord{group, 3, 6 + rank, rank});
    training.said(FinishStep{"a", 3, 4, static_cast<uint32_t>(rank), 2, 1.5, 100, false, true});
  }
  for (uint64_t seed : {9, 4}) training.said(PushRecord{group, 4, seed, 1});
  Records records = saved(training);
  training.said(FinishStep{"a", 4, 5, 1, 2, 1.5, 100, false, true});
  training.said(FinishStep{"a", 4, 5, 0, 2, 1.5, 100, false, true});
  for (size_t last : {2u, 1u}) records.push_back(mortal.journal.records[mortal.journal.records.size() - last]);
  return records;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(steps_state, *boost::unit_test::timeout(120))

BOOST_AUTO_TEST_CASE(steps_that_die_answer_and_apply_as_those_that_live) {
  uint64_t applied = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Training living;
    MortalTraining mortal;
    Workers workers{std::mt19937_64(seed)};
    for (int call = 0; call < 300; ++call) {
      if (workers.random() % 2 == 0) {
        const PushRecord push = workers.push();
        BOOST_TEST(mortal.training->said(push) == living.said(push));
      } else {
        const FinishStep message = workers.finish();
        const std::string said = living.said(message);
        BOOST_TEST(mortal.training->said(message) == said);
        applied += said.starts_with("applied");
        workers.hear(message, said);
        if (call % 7 == 0) mortal.restart();
        BOOST_TEST(mortal.training->said(message) == living.said(message));  // comes again
      }
      if (workers.random() % 40 == 0) mortal.take_snapshot();
      if (workers.random() % 4 == 0) mortal.restart();
    }
    BOOST_TEST((mortal.training->bits() == living.bits()));
  }
  BOOST_TEST(applied > 100u);
}

BOOST_AUTO_TEST_CASE(a_snapshot_in_the_middle_of_training_is_of_one_moment) {
  MortalTraining mortal;
  Training& training = *mortal.training;
  const uint64_t group = hash_name("train");
  const auto last = [](uint32_t rank) { return FinishStep{"train", 39, 40, rank, kWorld, 1, 100, false, true}; };
  std::atomic<int> errors{0};
  const auto snapshots = snapshots_during(training, mortal.journal, kWorld, [&](size_t rank) {
    for (uint64_t step = 0; step < 40; ++step) {
      for (uint64_t push = 0; push < 3; ++push) {
        errors += training.said(PushRecord{group, step, step * 31 + rank * 7 + push, rank}) != "";
      }
      FinishStep message = last(static_cast<uint32_t>(rank));
      message.step = step;
      message.count = step + 1;
      errors += !training.steps->finish(message, patience()).has_value();
    }
  });
  BOOST_TEST(errors == 0);
  for (const Snapshot& snapshot : snapshots) {
    mortal.snapshot = snapshot.records;
    mortal.at = snapshot.at;
    mortal.restart();
    BOOST_TEST((mortal.training->bits() == training.bits()));
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      BOOST_TEST(mortal.training->said(last(rank)) == training.said(last(rank)));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_finish_that_comes_again_is_written_once) {
  MortalTraining mortal;
  const FinishStep message{"train", 0, 1, 0, 2, 1, 100, false, false};
  for (int times = 0; times < 3; ++times) mortal.training->said(message);
  mortal.training->said(FinishStep{"train", 1, 1, 1, 2, 1, 100, false, false});  // refused
  BOOST_TEST(mortal.journal.records.size() == 1u);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_written_has_not_happened) {
  MortalTraining mortal;
  Training& training = *mortal.training;
  const uint64_t group = hash_name("train");
  mortal.journal.full = true;
  BOOST_TEST(code_of(training.hold({group, 7, 1, 5}, &mortal.journal)) == ErrorCode::kNoSpace);
  BOOST_TEST(code_of(training.steps->finish({"train", 7, 8, 0, 9, 1, 100, false, false}, now())) ==
             ErrorCode::kNoSpace);
  mortal.journal.full = false;
  // Neither the step, nor the worker, nor how many there are.
  BOOST_TEST(training.said(PushRecord{group, 3, 1, 0}) == "");
  const FinishStep last{"train", 3, 4, 0, 1, 1, 100, false, true};
  mortal.journal.full = true;
  const auto before = training.bits();
  BOOST_TEST(code_of(training.steps->finish(last, now())) == ErrorCode::kNoSpace);
  BOOST_TEST((training.bits() == before));
  mortal.journal.full = false;
  BOOST_TEST(training.said(last).starts_with("applied"));
  BOOST_TEST((training.bits() != before));
}

BOOST_AUTO_TEST_CASE(a_push_that_is_refused_is_not_written) {
  MortalTraining mortal;
  const uint64_t group = hash_name("train");
  mortal.training->said(PushRecord{group, 3, 1, 0});
  mortal.training->said(PushRecord{group, 4, 1, 1});
  BOOST_TEST(mortal.journal.records.size() == 1u);
}

BOOST_AUTO_TEST_CASE(damaged_records_are_refused) {
  const Records records = some_records();
  BOOST_TEST(records.size() == 6u);  // a group, its rows of one table, two pushes, two finishes
  BOOST_TEST(refuses_cut_records<Training>(records));
  std::mt19937_64 random(2);
  replay_damaged<Training>(records, random, [](Training& training) {
    training.said(PushRecord{hash_name("a"), 5, 3, 0});
    for (uint32_t rank : {0u, 1u}) training.said(FinishStep{"a", 5, 6, rank, 2, 1, 100, false, true});
  });
}

BOOST_AUTO_TEST_SUITE_END()
