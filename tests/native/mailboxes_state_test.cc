#include <map>

#include "memory_journal.h"
#include "server/mailboxes.h"

using namespace flota;
using namespace flota::testing;

namespace {

constexpr uint32_t kWorld = 3;

Deadline now() { return Deadline::after(milliseconds(0)); }

// Not much room, so that senders wait for some.
struct SmallBoxes : Mailboxes {
  SmallBoxes() : Mailboxes(Limits{60, 150, std::chrono::minutes(10), 5}) {}
};

// The same, and what lies there is idle at once.
struct IdleBoxes : Mailboxes {
  IdleBoxes() : Mailboxes(Limits{60, 30, milliseconds(0), 5}) {}
};

std::string said(Mailboxes& boxes, const Send& message) { return message_of(boxes.send(message, now())); }
std::string said(Mailboxes& boxes, const Receive& message) {
  auto letter = boxes.receive(message, now());
  if (!letter) return message_of(letter);
  if (letter->over) return "over";
  return std::to_string(letter->from) + (letter->last ? " last " : " ") + hex(*letter->bytes);
}

// Workers that send and receive on a few channels, also what they should not.
struct Workers {
  std::mt19937_64 random;
  std::map<std::pair<std::string, uint32_t>, uint64_t> taken = {};
  std::map<std::tuple<std::string, uint32_t, uint32_t>, uint64_t> sent = {};
  std::map<uint32_t, uint64_t> incarnations = {};
  std::vector<std::byte> bytes = {};
  uint64_t channels = 0;

  std::string channel() {
    if (random() % 40 == 0) ++channels;
    return "shuffle/" + std::to_string(channels + random() % 2);
  }
  uint32_t rank() { return static_cast<uint32_t>(random() % kWorld); }
  Send send() {
    Send message;
    message.channel = channel();
    message.from = rank();
    message.to = rank() / 2;
    message.world = random() % 60 == 0 ? kWorld + 1 : kWorld;
    if (random() % 100 == 0) {
      ++incarnations[message.from];
      for (auto& [key, count] : sent) count = std::get<1>(key) == message.from ? 0 : count;
    }
    message.incarnation = 5 + incarnations[message.from] - (random() % 40 == 0);
    message.sequence = sent[{message.channel, message.from, message.to}];
    message.last = random() % 3 == 0;
    bytes = random_bytes(random, random() % 30);
    message.size = bytes.size();
    message.bytes = bytes;
    value_of(message.check());
    return message;
  }
  void hear(const Send& message, const std::string& answer) {
    if (answer.empty()) ++sent[{message.channel, message.from, message.to}];
  }
  Receive receive() {
    Receive message;
    message.channel = channel();
    message.to = rank() / 2;
    message.world = kWorld;
    message.taken = taken[{message.channel, message.to}] + (random() % 30 == 0);
    return message;
  }
  void hear(const Receive& message, const std::string& answer) {
    if (answer.starts_with("0 ") || answer.starts_with("1 ") || answer.starts_with("2 ")) {
      ++taken[{message.channel, message.to}];
    }
  }
};

Send letter(uint32_t from, uint64_t sequence, bool last, uint64_t incarnation = 1, const char* channel = "a") {
  static const std::vector<std::byte> kBytes(13, std::byte{7});
  Send message;
  message.channel = channel;
  message.from = from;
  message.world = 2;
  message.incarnation = incarnation;
  message.sequence = sequence;
  message.last = last;
  message.size = kBytes.size();
  message.bytes = kBytes;
  return message;
}

// Each kind of what can be told of boxes.
Records some_records() {
  Mortal<Mailboxes> boxes;
  said(*boxes, letter(0, 0, false));
  said(*boxes, letter(1, 0, true));
  said(*boxes, Receive{"a", 0, 2, 0, 100});
  for (uint32_t from : {0u, 1u}) said(*boxes, letter(from, 0, true, 1, "b"));
  for (uint64_t taken : {0u, 1u, 2u}) said(*boxes, Receive{"b", 0, 2, taken, 100});
  said(*boxes, letter(0, 0, false, 1, "c"));
  said(*boxes, Receive{"c", 0, 2, 0, 100});
  said(*boxes, letter(0, 0, false, 2, "c"));
  boxes.take_snapshot();
  Records records = saved(*boxes);
  said(*boxes, letter(1, 0, true, 2));       // begins anew
  said(*boxes, Receive{"a", 0, 2, 1, 100});  // takes one and is given one
  said(*boxes, letter(1, 0, true, 3));       // breaks the box
  said(*boxes, letter(0, 0, true, 1, "d"));
  const Records& changes = boxes.journal().records;
  records.insert(records.end(), changes.begin(), changes.end());
  return records;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(mailboxes_state, *boost::unit_test::timeout(120))

BOOST_AUTO_TEST_CASE(mailboxes_that_die_answer_as_those_that_live) {
  int over = 0;
  int received = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SmallBoxes living;
    Mortal<SmallBoxes> mortal;
    Workers workers{std::mt19937_64(seed)};
    const auto both = [&](const auto& message) {
      const std::string answer = said(living, message);
      BOOST_TEST(said(*mortal, message) == answer);
      if (workers.random() % 4 == 0) mortal.restart();
      BOOST_TEST(said(*mortal, message) == said(living, message));  // comes again
      workers.hear(message, answer);
      over += answer == "over";
      received += answer.size() > 1 && answer[1] == ' ';
      if (workers.random() % 40 == 0) mortal.take_snapshot();
      if (workers.random() % 5 == 0) mortal.restart();
      BOOST_TEST(mortal->bytes() == living.bytes());
    };
    for (int call = 0; call < 400; ++call) {
      if (workers.random() % 2 == 0) {
        both(workers.send());
      } else {
        both(workers.receive());
      }
    }
  }
  BOOST_TEST(over > 20);
  BOOST_TEST(received > 300);
}

BOOST_AUTO_TEST_CASE(a_snapshot_in_the_middle_of_a_shuffle_is_of_one_moment) {
  constexpr uint64_t kLetters = 200;
  Mortal<SmallBoxes> mortal;
  std::atomic<int> errors{0};
  const auto snapshots = snapshots_during(*mortal, mortal.journal(), 3, [&](size_t rank) {
    for (uint64_t i = 0; i < kLetters && rank < 2; ++i) {
      errors += !mortal->send(letter(static_cast<uint32_t>(rank), i, false), patience()).has_value();
    }
    for (uint64_t taken = 0; taken < 2 * kLetters - 3 && rank == 2; ++taken) {
      errors += !mortal->receive({"a", 0, 2, taken, 100}, patience()).has_value();
    }
  });
  BOOST_TEST(errors == 0);
  BOOST_TEST(mortal->bytes() > 0u);
  for (const Snapshot& snapshot : snapshots) {
    SmallBoxes boxes;
    replay_after(boxes, snapshot, mortal.journal().records);
    BOOST_TEST(boxes.bytes() == mortal->bytes());
    const Receive next{"a", 0, 2, 2 * kLetters - 4, 100};
    BOOST_TEST(said(boxes, next) == said(*mortal, next));
  }
}

BOOST_AUTO_TEST_CASE(letters_that_were_dropped_stay_dropped) {
  Mortal<IdleBoxes> boxes;
  for (const char* channel : {"a", "b"}) said(*boxes, letter(0, 0, false, 1, channel));
  boxes.journal().full = true;
  BOOST_TEST(said(*boxes, letter(1, 0, false, 1, "c")) == "the disk is full");
  BOOST_TEST(boxes->bytes() == 26u);
  boxes.journal().full = false;
  BOOST_TEST(said(*boxes, letter(1, 0, false, 1, "c")) == "");
  const std::string answer = said(*boxes, Receive{"a", 0, 2, 0, 100});
  BOOST_TEST(contains(answer, "its letters on channel 'a' were dropped"));
  boxes.restart();
  BOOST_TEST(said(*boxes, Receive{"a", 0, 2, 0, 100}) == answer);
  boxes.take_snapshot();
  boxes.restart();
  BOOST_TEST(said(*boxes, Receive{"a", 0, 2, 0, 100}) == answer);
  BOOST_TEST(boxes->bytes() == 26u);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_written_has_not_happened) {
  Mortal<Mailboxes> boxes;
  Mailboxes living;
  const auto both = [&](const auto& message) {
    boxes.journal().full = true;
    const std::string refused = said(*boxes, message);
    boxes.journal().full = false;
    const std::string answer = said(living, message);
    BOOST_TEST(said(*boxes, message) == answer);
    BOOST_TEST(boxes->bytes() == living.bytes());
    return refused;
  };
  const std::string full = "the disk is full";
  BOOST_TEST(both(letter(0, 0, false)) == full);  // opens the box
  BOOST_TEST(both(letter(1, 0, false)) == full);
  BOOST_TEST(both(letter(1, 0, true, 2)) == full);       // begins anew
  BOOST_TEST(both(Receive{"a", 0, 2, 0, 100}) == full);  // is given one
  BOOST_TEST(both(Receive{"a", 0, 2, 0, 100}) == said(living, Receive{"a", 0, 2, 0, 100}));
  BOOST_TEST(both(Receive{"a", 0, 2, 1, 100}) == full);  // takes it
  BOOST_TEST(both(letter(0, 1, true)) == full);
  BOOST_TEST(both(Receive{"a", 0, 2, 2, 100}) == full);
  BOOST_TEST(both(Receive{"a", 0, 2, 3, 100}) == full);  // is over
  both(letter(0, 0, false, 1, "b"));
  both(Receive{"b", 0, 2, 0, 100});
  BOOST_TEST(both(letter(0, 0, false, 2, "b")) == full);  // breaks the box
  BOOST_TEST(both(Receive{"b", 0, 2, 0, 100}) == said(living, Receive{"b", 0, 2, 0, 100}));
}

BOOST_AUTO_TEST_CASE(damaged_records_are_refused) {
  const Records records = some_records();
  BOOST_TEST(refuses_cut_records<Mailboxes>(records));
  std::mt19937_64 random(2);
  replay_damaged<Mailboxes>(records, random, [](Mailboxes& boxes) {
    for (const char* channel : {"a", "b", "c", "d"}) {
      said(boxes, letter(1, 1, true, 2, channel));
      said(boxes, letter(0, 0, true, 4, channel));
      for (uint64_t taken : {0u, 1u, 2u}) said(boxes, Receive{channel, 0, 2, taken, 100});
    }
    static_cast<void>(saved(boxes));
  });
}

BOOST_AUTO_TEST_SUITE_END()
