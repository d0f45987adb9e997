#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "common/deadline.h"
#include "common/result.h"
#include "server/record.h"
#include "wire/mail_messages.h"

namespace flota {

// Blocks of bytes that workers send each other: a box for each channel and receiver, which holds little and makes
// senders wait. Each letter is received once, whatever happens to connections, in the order of its sender; when all
// workers have sent their last, the channel is over for the receiver, and its name is used up. Thread safety: any
// thread.
class Mailboxes {
 public:
  struct Limits {
    uint64_t box_bytes = uint64_t{32} << 20;
    uint64_t all_bytes = uint64_t{256} << 20;
    // A box that nobody sends to or receives from for so long loses its letters if others need the room.
    std::chrono::milliseconds idle = std::chrono::minutes(10);
    size_t boxes = 65536;  // that are not over, and as many that are: those are kept for answers that got lost
  };
  Mailboxes() : Mailboxes(Limits()) {}
  explicit Mailboxes(const Limits& limits) : limits_(limits) {}

  // Puts a letter into its box once there is room; kDeadline names the receiver who does not read. What comes again
  // after a broken connection counts once. kStaleEpoch: the sender was restarted, and some of what it had sent before
  // was received already; the receiver is told the same. Requires: message.check().
  Result<void> send(const Send& message, Deadline deadline);

  // The next letter after the first message.taken, which are forgotten; or that there will be none. The same number
  // again gives the same letter again. kDeadline names those who have not sent their last. Requires: message.check().
  Result<Letter> receive(const Receive& message, Deadline deadline);

  // Everybody who waits gets kShuttingDown.
  void stop();

  // Bytes of letters that nobody has taken.
  uint64_t bytes() const;

  // As in server/record.h. Nothing is idle that was replayed, until its time from then on has passed.
  void set_journal(Journal* journal) { journal_ = journal; }
  Freeze freeze();
  Result<void> save(Journal& out) const;
  Result<void> replay(RecordKind kind, std::span<const std::byte> payload);

 private:
  using Time = Deadline::Clock::time_point;
  using Name = std::pair<std::string, uint32_t>;  // channel, receiver

  struct Sender {
    uint64_t incarnation = 0;
    uint64_t sent = 0;
    uint64_t taken = 0;  // of these
    bool last = false;   // has sent its last
  };
  struct Box {
    explicit Box(uint32_t workers) : world(workers) {}

    std::condition_variable changed;  // a letter has come, or all has ended
    const uint32_t world;
    boost::unordered_flat_map<uint32_t, Sender> senders;
    std::deque<Letter> letters;
    uint64_t bytes = 0;
    uint64_t taken = 0;                         // letters that were here before
    bool given = false;                         // the first letter was given to the receiver, who may have it
    uint32_t ended = 0;                         // senders whose last was taken
    bool over = false;                          // all senders'
    std::map<uint32_t, uint64_t> incarnations;  // when over: of senders that had been restarted
    std::optional<Error> broken;                // the receiver cannot get what it should
    uint32_t users = 0;                         // requests that wait
    Time touched;                               // when the last request ended
  };
  // A request that is in a box, which is not idle then.
  struct Visit;

  // What has become of a box, beside the letters that came. The numbers are on disk.
  enum class Event : uint64_t {
    kOpened = 1,
    kGiven = 2,   // its first letter
    kTook = 3,    // its first letter, by the receiver
    kOver = 4,    // all was taken
    kBroken = 5,  // by an error
    kAnew = 6,    // begins one of its senders: a later incarnation
  };
  struct Told {
    Event event{};
    uint32_t from = 0;         // kAnew: who
    uint64_t incarnation = 0;  // and as what
    const Error* error = nullptr;
  };

  // Those below need the lock. What changes a box is written first, and made by a function of its own, which replays
  // use too.
  Result<void> write(const Name& name, const Box& box, const Told& told) const;
  Result<void> write_letter(const Send& message) const;
  void put(Box& box, const Send& message, std::shared_ptr<const std::vector<std::byte>> bytes);
  void begin_anew(Box& box, uint32_t from, uint64_t incarnation);
  void close(const Name& name, Box& box);
  Result<std::shared_ptr<Box>> open(const Name& name, uint32_t world, uint32_t asks);
  // Whether the letter still has to be put into the box.
  Result<bool> expected(const Name& name, Box& box, const Send& message);
  void forget_sender(Box& box, uint32_t from);
  Letter take_first(Box& box);
  // Lets go of the letters, and keeps the box for a while for those who ask again.
  void end(const Name& name, Box& box);
  void break_box(const Name& name, Box& box, Error error);
  bool has_room(const Box& box, uint64_t size) const;
  // Drops what was left in a box, if there is no room for so much otherwise.
  Result<void> drop_idle(uint64_t size);
  // Who holds up a sender.
  std::string unread(const Name& name, const Box& box, uint64_t size) const;

  static Result<void> save_box(Journal& out, const Name& name, const Box& box);
  Result<void> replay_letter(std::span<const std::byte> payload);
  Result<void> replay_event(std::span<const std::byte> payload);
  Result<void> replay_box(std::span<const std::byte> payload);
  Result<void> replay_held(std::span<const std::byte> payload);
  Result<std::shared_ptr<Box>> replayed_box(const Name& name, uint32_t world) const;

  const Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable room_;  // a letter was taken or dropped
  bool stopped_ = false;
  bool replayed_ = false;  // and nobody has asked since
  Journal* journal_ = nullptr;
  uint64_t bytes_ = 0;
  std::map<Name, std::shared_ptr<Box>> boxes_;
  std::deque<Name> ended_;  // the oldest first
};

}  // namespace flota
