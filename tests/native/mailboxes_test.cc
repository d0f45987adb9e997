#include "server/mailboxes.h"

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "testing.h"

using namespace flota;
using namespace flota::testing;

namespace {

constexpr const char* kChannel = "shuffle";

// `size` bytes that tell who sent them and as which one.
std::vector<std::byte> contents(uint32_t from, uint64_t sequence, size_t size) {
  std::mt19937_64 random(from * 1'000'003 + sequence);
  return random_bytes(random, size);
}

// A sender's end: counts its letters.
struct Sender {
  Mailboxes& boxes;
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t world = 2;
  uint64_t incarnation = 0;
  std::string channel = kChannel;
  uint64_t sent = 0;

  Result<void> again(uint64_t sequence, size_t size, bool last = false,
                     Deadline deadline = Deadline::after(milliseconds(0))) {
    const auto bytes = contents(from, sequence, size);
    Send message;
    message.channel = channel;
    message.from = from;
    message.to = to;
    message.world = world;
    message.incarnation = incarnation;
    message.sequence = sequence;
    message.wait_ms = 100;
    message.last = last;
    message.size = size;
    message.bytes = bytes;
    value_of(message.check());
    return boxes.send(message, deadline);
  }
  Result<void> try_send(size_t size, bool last = false, Deadline deadline = Deadline::after(milliseconds(0))) {
    auto status = again(sent, size, last, deadline);
    sent += status.has_value();
    return status;
  }
  void send(size_t size, bool last = false) { value_of(try_send(size, last)); }
  void end() { send(0, true); }
};

struct Receiver {
  Mailboxes& boxes;
  uint32_t to = 0;
  uint32_t world = 2;
  std::string channel = kChannel;
  uint64_t taken = 0;

  Result<Letter> again(uint64_t number, Deadline deadline = Deadline::after(milliseconds(0))) {
    return boxes.receive({channel, to, world, number, 100}, deadline);
  }
  Result<Letter> try_receive(Deadline deadline = Deadline::after(milliseconds(0))) {
    auto letter = again(taken, deadline);
    taken += letter.has_value() && !letter->over;
    return letter;
  }
  Letter receive() { return value_of(try_receive()); }
  Letter wait() { return value_of(try_receive(patience())); }
};

bool is(const Letter& letter, uint32_t from, uint64_t sequence, size_t size) {
  return !letter.over && letter.from == from && *letter.bytes == contents(from, sequence, size);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(mailboxes, *boost::unit_test::timeout(120))

BOOST_AUTO_TEST_CASE(letters_come_in_the_order_they_were_sent_in) {
  Mailboxes boxes;
  Sender a{boxes, 0};
  Sender b{boxes, 1};
  Receiver receiver{boxes};
  a.send(10);
  b.send(20);
  a.send(0, true);
  BOOST_TEST(boxes.bytes() == 30u);
  BOOST_TEST(is(receiver.receive(), 0, 0, 10));
  BOOST_TEST(is(receiver.receive(), 1, 0, 20));
  const Letter last = receiver.receive();
  BOOST_TEST(is(last, 0, 1, 0));
  BOOST_TEST(last.last);
  b.send(5, true);
  BOOST_TEST(is(receiver.receive(), 1, 1, 5));
  BOOST_TEST(receiver.receive().over);
  BOOST_TEST(boxes.bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(receivers_and_channels_have_boxes_of_their_own) {
  Mailboxes boxes;
  Sender one{boxes, 0, 1};
  Sender other{boxes, 0, 0};
  other.channel = "another";
  one.send(7);
  other.send(8);
  Receiver zero{boxes, 0};
  BOOST_TEST(code_of(zero.try_receive()) == ErrorCode::kDeadline);
  Receiver first{boxes, 1};
  BOOST_TEST(is(first.receive(), 0, 0, 7));
  zero.channel = "another";
  BOOST_TEST(is(zero.receive(), 0, 0, 8));
}

BOOST_AUTO_TEST_CASE(the_same_number_gives_the_same_letter) {
  Mailboxes boxes;
  Sender a{boxes, 0};
  a.send(10);
  a.send(11);
  Receiver receiver{boxes};
  for (int times = 0; times < 3; ++times) BOOST_TEST(is(value_of(receiver.again(0)), 0, 0, 10));
  for (int times = 0; times < 3; ++times) BOOST_TEST(is(value_of(receiver.again(1)), 0, 1, 11));
  BOOST_TEST(boxes.bytes() == 11u);
  auto back = receiver.again(0);
  BOOST_TEST(message_of(back) ==
             "worker 0 says that it has taken 0 letters on channel 'shuffle', but has taken 1; a receiver that is "
             "restarted cannot go on");
  BOOST_TEST(code_of(back) == ErrorCode::kInvalidArgument);
  BOOST_TEST(code_of(receiver.again(3)) == ErrorCode::kInvalidArgument);
}

BOOST_AUTO_TEST_CASE(nobody_can_take_what_it_was_not_given) {
  Mailboxes boxes;
  Sender a{boxes, 0};
  a.send(10);
  Receiver receiver{boxes};
  BOOST_TEST(code_of(receiver.again(1)) == ErrorCode::kInvalidArgument);
  BOOST_TEST(is(receiver.receive(), 0, 0, 10));
}

BOOST_AUTO_TEST_CASE(a_letter_that_comes_again_counts_once) {
  Mailboxes boxes;
  Sender a{boxes, 0};
  a.send(10);
  a.send(11);
  for (int times = 0; times < 3; ++times) {
    value_of(a.again(0, 10));
    value_of(a.again(1, 11));
  }
  BOOST_TEST(boxes.bytes() == 21u);
  Receiver receiver{boxes};
  BOOST_TEST(is(receiver.receive(), 0, 0, 10));
  value_of(a.again(0, 10));
  BOOST_TEST(is(receiver.receive(), 0, 1, 11));
  BOOST_TEST(code_of(receiver.try_receive()) == ErrorCode::kDeadline);
  value_of(a.again(1, 11));
  BOOST_TEST(boxes.bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(a_letter_that_is_missing_is_noticed) {
  Mailboxes boxes;
  Sender a{boxes, 1};
  a.send(1);
  auto gap = a.again(2, 1);
  BOOST_TEST(code_of(gap) == ErrorCode::kInvalidArgument);
  BOOST_TEST(
      message_of(gap) ==
      "worker 1 sends letter 2 to worker 0 on channel 'shuffle', but only 1 came before it: they were lost with a "
      "server that was restarted, or never sent");
  a.end();
  auto after = a.try_send(1);
  BOOST_TEST(message_of(after) == "worker 1 sends worker 0 a letter on channel 'shuffle' after its last one");
}

BOOST_AUTO_TEST_CASE(that_a_channel_is_over_is_told_again) {
  Mailboxes boxes;
  Sender a{boxes, 0};
  Sender b{boxes, 1};
  Receiver receiver{boxes};
  a.end();
  b.end();
  receiver.receive();
  receiver.receive();
  for (int times = 0; times < 3; ++times) BOOST_TEST(receiver.receive().over);
  // The answer to its last letter got lost, and the receiver was quick.
  value_of(a.again(0, 0, true));
  BOOST_TEST(receiver.receive().over);
  auto reused = receiver.again(0);
  BOOST_TEST(code_of(reused) == ErrorCode::kInvalidArgument);
  BOOST_TEST(contains(message_of(reused), "has taken 2, and that was all; use another name"));
}

BOOST_AUTO_TEST_CASE(channels_that_are_over_are_not_kept_for_ever) {
  Mailboxes::Limits limits;
  limits.boxes = 10;
  Mailboxes boxes(limits);
  for (int i = 0; i < 50; ++i) {
    Sender sender{boxes, 0, 0, 1};
    sender.channel = "epoch " + std::to_string(i);
    sender.end();
    Receiver receiver{boxes, 0, 1};
    receiver.channel = sender.channel;
    receiver.receive();
    BOOST_TEST(receiver.receive().over);
  }
  Receiver last{boxes, 0, 1, "epoch 40", 1};
  BOOST_TEST(last.receive().over);
  last.channel = "epoch 39";
  BOOST_TEST(code_of(last.try_receive()) == ErrorCode::kInvalidArgument);
}

BOOST_AUTO_TEST_CASE(the_number_of_boxes_is_limited) {
  Mailboxes::Limits limits;
  limits.boxes = 10;
  Mailboxes boxes(limits);
  for (int i = 0; i < 10; ++i) {
    Sender sender{boxes, 0};
    sender.channel = "epoch " + std::to_string(i);
    sender.send(1);
  }
  Sender more{boxes, 0};
  BOOST_TEST(code_of(more.try_send(1)) == ErrorCode::kBusy);
}

BOOST_AUTO_TEST_CASE(who_waits_for_a_letter_is_given_it) {
  Mailboxes boxes;
  Receiver receiver{boxes};
  Letter letter;
  std::thread waiting([&] { letter = receiver.wait(); });
  Sender{boxes, 1}.send(99);
  waiting.join();
  BOOST_TEST(is(letter, 1, 0, 99));
}

BOOST_AUTO_TEST_CASE(the_deadline_names_those_who_may_send_more) {
  Mailboxes boxes;
  Receiver receiver{boxes, 3, 5};
  for (uint32_t from : {0, 3}) Sender{boxes, from, 3, 5}.end();
  Sender{boxes, 1, 3, 5}.send(1);
  for (int letters = 0; letters < 3; ++letters) receiver.receive();
  auto late = receiver.try_receive();
  BOOST_TEST(code_of(late) == ErrorCode::kDeadline);
  BOOST_TEST(message_of(late) ==
             "worker 3 waited 0.1 s for a letter on channel 'shuffle': workers 1, 2, 4 of 5 did not send their last");
}

BOOST_AUTO_TEST_CASE(a_full_box_makes_senders_wait_and_names_who_does_not_read) {
  Mailboxes boxes({100, 1000});
  Sender a{boxes, 0, 1};
  a.send(60);
  a.send(40);
  auto late = a.try_send(1);
  BOOST_TEST(code_of(late) == ErrorCode::kDeadline);
  BOOST_TEST(message_of(late) ==
             "worker 0 waited 0.1 s to send to worker 1 on channel 'shuffle': worker 1 has not taken 2 letters (0 MiB) "
             "on channel 'shuffle'");
  // To others there is room.
  Sender{boxes, 0, 0}.send(100);
  Receiver receiver{boxes, 1};
  Result<void> sent;
  std::thread waiting([&] { sent = a.try_send(60, true, patience()); });
  BOOST_TEST(is(receiver.wait(), 0, 0, 60));
  BOOST_TEST(is(receiver.wait(), 0, 1, 40));  // the first is taken by now
  waiting.join();
  value_of(sent);
  BOOST_TEST(is(receiver.wait(), 0, 2, 60));
}

BOOST_AUTO_TEST_CASE(a_letter_alone_fits_however_large_it_is) {
  Mailboxes boxes({100, 100});
  Sender a{boxes, 0};
  a.send(500);
  BOOST_TEST(code_of(a.try_send(0)) == ErrorCode::kDeadline);
  Receiver receiver{boxes};
  receiver.receive();
  BOOST_TEST(code_of(receiver.try_receive()) == ErrorCode::kDeadline);
  a.send(500);
}

BOOST_AUTO_TEST_CASE(all_boxes_together_are_limited_and_the_fullest_is_named) {
  Mailboxes boxes({100, 250});
  for (uint32_t to : {0, 1}) Sender{boxes, 0, to, 4}.send(100);
  Sender{boxes, 0, 2, 4}.send(40);
  Sender a{boxes, 1, 3, 4};
  auto late = a.try_send(20);
  BOOST_TEST(code_of(late) == ErrorCode::kDeadline);
  BOOST_TEST(contains(message_of(late), "the server holds 0 MiB of letters, and worker 0 has not taken 1 letters"));
  std::thread waiting([&] { value_of(a.try_send(20, false, patience())); });
  Receiver two{boxes, 2, 4};
  two.receive();
  BOOST_TEST(code_of(two.try_receive()) == ErrorCode::kDeadline);  // and it is taken
  waiting.join();
  BOOST_TEST(boxes.bytes() == 220u);
}

BOOST_AUTO_TEST_CASE(boxes_that_everybody_has_left_make_room_for_others) {
  Mailboxes boxes({100, 150, milliseconds(0)});
  Sender left{boxes, 0, 0};
  left.send(100);
  std::this_thread::sleep_for(milliseconds(2));
  Sender other{boxes, 0, 1};
  other.channel = "another";
  other.send(100);
  BOOST_TEST(boxes.bytes() == 100u);
  Receiver receiver{boxes, 0};
  auto dropped = receiver.try_receive();
  BOOST_TEST(code_of(dropped) == ErrorCode::kBusy);
  BOOST_TEST(contains(message_of(dropped), "worker 0 cannot go on: its letters on channel 'shuffle' were dropped"));
  BOOST_TEST(code_of(left.try_send(1)) == ErrorCode::kBusy);
}

BOOST_AUTO_TEST_CASE(boxes_that_were_used_of_late_keep_their_letters) {
  Mailboxes boxes({100, 100, std::chrono::minutes(10)});
  Sender{boxes, 0, 0}.send(100);
  Sender other{boxes, 0, 1};
  BOOST_TEST(code_of(other.try_send(100)) == ErrorCode::kDeadline);
  BOOST_TEST(boxes.bytes() == 100u);
}

BOOST_AUTO_TEST_CASE(a_restarted_sender_begins_again_if_nothing_was_received_of_it) {
  Mailboxes boxes;
  Sender other{boxes, 1};
  Sender old{boxes, 0};
  other.send(5);
  old.send(10);
  old.send(11);
  other.end();
  Receiver receiver{boxes};
  BOOST_TEST(is(receiver.receive(), 1, 0, 5));
  Sender again{boxes, 0};
  again.incarnation = 1;
  again.send(20);
  again.end();
  BOOST_TEST(boxes.bytes() == 25u);  // the first letter is not known to be taken yet
  BOOST_TEST(is(receiver.receive(), 1, 1, 0));
  BOOST_TEST(is(receiver.receive(), 0, 0, 20));
  BOOST_TEST(is(receiver.receive(), 0, 1, 0));
  BOOST_TEST(receiver.receive().over);
  auto stale = old.again(2, 1);
  BOOST_TEST(code_of(stale) == ErrorCode::kStaleEpoch);
  BOOST_TEST(message_of(stale) ==
             "worker 0 was started again: incarnation 1 has taken the place of 0, which must stop");
  value_of(again.again(1, 0, true));
  again.incarnation = 2;
  BOOST_TEST(code_of(again.again(0, 20)) == ErrorCode::kStaleEpoch);
}

BOOST_AUTO_TEST_CASE(a_sender_restarted_after_letters_were_received_is_refused_and_the_receiver_told) {
  for (bool taken : {false, true}) {
    Mailboxes boxes;
    Sender old{boxes, 0};
    old.send(10);
    old.send(11);
    Receiver receiver{boxes};
    receiver.receive();  // it may have arrived, so it counts
    if (taken) receiver.receive();
    Sender{boxes, 1}.send(1);
    Sender again{boxes, 0};
    again.incarnation = 1;
    const std::string message =
        "worker 0 was started again after worker 0 had received letters of it on channel 'shuffle': it would receive "
        "them twice";
    BOOST_TEST(message_of(again.try_send(10)) == message);
    auto told = receiver.try_receive();
    BOOST_TEST(code_of(told) == ErrorCode::kStaleEpoch);
    BOOST_TEST(message_of(told) == message);
    BOOST_TEST(message_of(Sender{boxes, 1}.again(1, 1)) == message);
    BOOST_TEST(boxes.bytes() == 0u);
  }
}

BOOST_AUTO_TEST_CASE(who_waits_hears_of_a_restarted_sender) {
  Mailboxes boxes({100, 1000});
  Sender old{boxes, 0};
  old.send(10);
  Receiver receiver{boxes};
  receiver.receive();
  Result<Letter> letter = Letter();
  std::thread waiting([&] { letter = receiver.try_receive(patience()); });
  Sender again{boxes, 0};
  again.incarnation = 1;
  BOOST_TEST(code_of(again.try_send(10)) == ErrorCode::kStaleEpoch);
  waiting.join();
  BOOST_TEST(code_of(letter) == ErrorCode::kStaleEpoch);
}

BOOST_AUTO_TEST_CASE(workers_that_disagree_about_their_number_are_told_so) {
  Mailboxes boxes;
  Sender{boxes, 0, 0, 2}.send(1);
  auto other = Sender{boxes, 2, 0, 3}.try_send(1);
  BOOST_TEST(code_of(other) == ErrorCode::kInvalidArgument);
  BOOST_TEST(message_of(other) == "worker 2 says there are 3 workers on channel 'shuffle', others say 2");
}

BOOST_AUTO_TEST_CASE(a_server_that_stops_keeps_nobody) {
  Mailboxes boxes({100, 100});
  Sender{boxes, 0, 1}.send(100);
  Result<Letter> letter = Letter();
  Result<void> sent;
  std::thread receiving([&] { letter = Receiver{boxes, 0}.try_receive(patience()); });
  std::thread sending([&] { sent = Sender{boxes, 1, 1}.try_send(100, false, patience()); });
  boxes.stop();
  receiving.join();
  sending.join();
  BOOST_TEST(code_of(letter) == ErrorCode::kShuttingDown);
  BOOST_TEST(code_of(sent) == ErrorCode::kShuttingDown);
}

// Everybody sends to everybody through little room, and sends and asks again now and then, as after broken connections.
BOOST_AUTO_TEST_CASE(every_letter_arrives_once_and_in_order_among_many_workers) {
  constexpr uint32_t kWorld = 5;
  constexpr uint64_t kLetters = 60;
  Mailboxes boxes({2'000, 6'000});
  std::atomic<int> errors{0};
  std::atomic<uint64_t> received{0};
  in_threads(2 * kWorld, [&](size_t thread) {
    const auto rank = static_cast<uint32_t>(thread % kWorld);
    std::mt19937_64 random(thread);
    if (thread < kWorld) {
      std::vector<Sender> senders;
      for (uint32_t to = 0; to < kWorld; ++to) senders.push_back({boxes, rank, to, kWorld});
      for (uint64_t letter = 0; letter < kLetters; ++letter) {
        for (Sender& sender : senders) {
          const size_t size = (rank * 7 + letter * 13 + sender.to) % 500;
          const bool last = letter + 1 == kLetters;
          errors += !sender.try_send(size, last, patience()).has_value();
          if (random() % 4 == 0) errors += !sender.again(letter, size, last, patience()).has_value();
        }
      }
      return;
    }
    Receiver receiver{boxes, rank, kWorld};
    std::map<uint32_t, uint64_t> next;
    for (;;) {
      auto letter = receiver.again(receiver.taken, patience());
      if (random() % 4 == 0) letter = receiver.again(receiver.taken, patience());
      errors += !letter.has_value();
      if (!letter || letter->over) return;
      ++receiver.taken;
      ++received;
      const uint64_t number = next[letter->from]++;
      errors += !is(*letter, letter->from, number, (letter->from * 7 + number * 13 + rank) % 500);
      errors += letter->last != (number + 1 == kLetters);
    }
  });
  BOOST_TEST(errors == 0);
  BOOST_TEST(received == kWorld * kWorld * kLetters);
  BOOST_TEST(boxes.bytes() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
