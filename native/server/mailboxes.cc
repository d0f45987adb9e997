#include "server/mailboxes.h"

#include <algorithm>

#include "server/wording.h"

namespace flota {
namespace {

// How often a sender that waits for room looks for boxes that were left.
constexpr std::chrono::seconds kLook{1};

std::string on(const std::string& channel) { return " on channel '" + channel + "'"; }

Error stopping() { return {ErrorCode::kShuttingDown, "the server is stopping"}; }

// Letters are large: they are copied and freed while others use their boxes.
class Unlocked {
 public:
  explicit Unlocked(std::unique_lock<std::mutex>& lock) : lock_(lock) { lock_.unlock(); }
  ~Unlocked() { lock_.lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  std::unique_lock<std::mutex>& lock_;
};

}  // namespace

struct Mailboxes::Visit {
  explicit Visit(Box& visited) : box(visited) { ++box.users; }
  ~Visit() {
    --box.users;
    box.touched = Deadline::Clock::now();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  Box& box;
};

Result<std::shared_ptr<Mailboxes::Box>> Mailboxes::open(const Name& name, uint32_t world, uint32_t asks) {
  if (stopped_) return stopping();
  if (std::exchange(replayed_, false)) {
    for (auto& [other, box] : boxes_) box->touched = Deadline::Clock::now();
  }
  const auto found = boxes_.find(name);
  if (found == boxes_.end()) {
    if (boxes_.size() - ended_.size() >= limits_.boxes) {
      return Error{ErrorCode::kBusy, "too many mailboxes; the last" + on(name.first)};
    }
    auto box = std::make_shared<Box>(world);
    FLOTA_TRY(write(name, *box, {Event::kOpened}));
    return boxes_[name] = std::move(box);
  }
  const std::shared_ptr<Box>& box = found->second;
  if (box->broken) return *box->broken;
  if (box->world == world) return box;
  return invalid(worker(asks) + " says there are " + std::to_string(world) + " workers" + on(name.first) +
                 ", others say " + std::to_string(box->world));
}

Letter Mailboxes::take_first(Box& box) {
  Letter letter = std::move(box.letters.front());
  ++box.senders[letter.from].taken;
  if (letter.last) ++box.ended;
  box.bytes -= letter.bytes->size();
  bytes_ -= letter.bytes->size();
  box.letters.pop_front();
  ++box.taken;
  box.given = false;
  room_.notify_all();
  return letter;
}

void Mailboxes::forget_sender(Box& box, uint32_t from) {
  std::erase_if(box.letters, [&](const Letter& letter) {
    if (letter.from != from) return false;
    box.bytes -= letter.bytes->size();
    bytes_ -= letter.bytes->size();
    return true;
  });
  room_.notify_all();
}

void Mailboxes::begin_anew(Box& box, uint32_t from, uint64_t incarnation) {
  forget_sender(box, from);
  box.senders[from] = Sender{incarnation};
}

void Mailboxes::put(Box& box, const Send& message, std::shared_ptr<const std::vector<std::byte>> bytes) {
  box.letters.push_back({false, message.last, message.from, std::move(bytes)});
  box.bytes += message.size;
  bytes_ += message.size;
  Sender& sender = box.senders.try_emplace(message.from, Sender{message.incarnation}).first->second;
  ++sender.sent;
  sender.last = message.last;
  box.changed.notify_all();
}

void Mailboxes::close(const Name& name, Box& box) {
  box.over = true;
  for (const auto& [from, sender] : box.senders) {
    if (sender.incarnation != 0) box.incarnations[from] = sender.incarnation;
  }
  end(name, box);
}

void Mailboxes::end(const Name& name, Box& box) {
  bytes_ -= box.bytes;
  box.bytes = 0;
  box.letters.clear();
  box.senders = {};
  box.changed.notify_all();
  room_.notify_all();
  ended_.push_back(name);
  if (ended_.size() <= limits_.boxes) return;
  boxes_.erase(ended_.front());
  ended_.pop_front();
}

void Mailboxes::break_box(const Name& name, Box& box, Error error) {
  box.broken = std::move(error);
  end(name, box);
}

Result<bool> Mailboxes::expected(const Name& name, Box& box, const Send& message) {
  const auto incarnation = [&] {
    if (!box.over) {
      const auto found = box.senders.find(message.from);
      return found == box.senders.end() ? message.incarnation : found->second.incarnation;
    }
    const auto found = box.incarnations.find(message.from);
    return found == box.incarnations.end() ? 0 : found->second;
  }();
  if (message.incarnation < incarnation) return replaced(message.from, incarnation, message.incarnation);
  if (message.incarnation > incarnation) {
    const bool in_hand = box.given && box.letters.front().from == message.from;
    if (box.over || box.senders[message.from].taken > 0 || in_hand) {
      Error error{ErrorCode::kStaleEpoch, worker(message.from) + " was started again after " + worker(message.to) +
                                              " had received letters of it" + on(message.channel) +
                                              ": it would receive them twice"};
      if (!box.over) {
        FLOTA_TRY(write(name, box, {Event::kBroken, 0, 0, &error}));
        break_box(name, box, error);
      }
      return error;
    }
    FLOTA_TRY(write(name, box, {Event::kAnew, message.from, message.incarnation, nullptr}));
    begin_anew(box, message.from, message.incarnation);
  }
  if (box.over) return false;
  const auto found = box.senders.find(message.from);
  const Sender sender = found == box.senders.end() ? Sender() : found->second;
  if (message.sequence < sender.sent) return false;
  if (message.sequence > sender.sent) {
    return invalid(worker(message.from) + " sends letter " + std::to_string(message.sequence) + " to " +
                   worker(message.to) + on(message.channel) + ", but only " + std::to_string(sender.sent) +
                   " came before it: they were lost with a server that was restarted, or never sent");
  }
  if (!sender.last) return true;
  return invalid(worker(message.from) + " sends " + worker(message.to) + " a letter" + on(message.channel) +
                 " after its last one");
}

bool Mailboxes::has_room(const Box& box, uint64_t size) const {
  // However little a box may hold, a letter alone fits.
  const bool in_box = box.letters.empty() || box.bytes + size <= limits_.box_bytes;
  return in_box && (bytes_ == 0 || bytes_ + size <= limits_.all_bytes);
}

Result<void> Mailboxes::drop_idle(uint64_t size) {
  if (bytes_ + size <= limits_.all_bytes) return {};
  const Time left_before = Deadline::Clock::now() - limits_.idle;
  for (auto& [name, box] : boxes_) {
    if (box->letters.empty() || box->users > 0 || box->touched > left_before) continue;
    const Error error{ErrorCode::kBusy, worker(name.second) + " cannot go on: its letters" + on(name.first) +
                                            " were dropped, as nobody sent or received any for " +
                                            seconds(static_cast<uint64_t>(limits_.idle.count())) +
                                            " and others needed the room"};
    FLOTA_TRY(write(name, *box, {Event::kBroken, 0, 0, &error}));
    break_box(name, *box, error);
    break;  // what this frees may be enough; and a box may have gone from the map
  }
  return {};
}

std::string Mailboxes::unread(const Name& name, const Box& box, uint64_t size) const {
  auto text = [](const Name& of, const Box& full) {
    return worker(of.second) + " has not taken " + std::to_string(full.letters.size()) + " letters (" +
           std::to_string(full.bytes >> 20) + " MiB)" + on(of.first);
  };
  if (!box.letters.empty() && box.bytes + size > limits_.box_bytes) return text(name, box);
  const auto fullest = std::max_element(boxes_.begin(), boxes_.end(),
                                        [](const auto& a, const auto& b) { return a.second->bytes < b.second->bytes; });
  return "the server holds " + std::to_string(bytes_ >> 20) + " MiB of letters, and " +
         text(fullest->first, *fullest->second);
}

Result<void> Mailboxes::send(const Send& message, Deadline deadline) {
  std::unique_lock lock(mutex_);
  const Name name{message.channel, message.to};
  FLOTA_ASSIGN(auto box, open(name, message.world, message.from));
  const Visit visit(*box);
  std::shared_ptr<const std::vector<std::byte>> bytes;
  for (;;) {
    if (stopped_) return stopping();
    if (box->broken) return *box->broken;
    FLOTA_ASSIGN(bool wanted, expected(name, *box, message));
    if (!wanted) return {};
    if (has_room(*box, message.size)) {
      if (bytes) break;
      const Unlocked unlocked(lock);
      bytes = std::make_shared<const std::vector<std::byte>>(message.bytes.begin(), message.bytes.end());
      continue;
    }
    FLOTA_TRY(drop_idle(message.size));
    if (has_room(*box, message.size)) continue;
    if (deadline.passed()) {
      return Error{ErrorCode::kDeadline, worker(message.from) + " waited " + seconds(message.wait_ms) + " to send to " +
                                             worker(message.to) + on(message.channel) + ": " +
                                             unread(name, *box, message.size)};
    }
    room_.wait_until(lock, std::min(deadline.when(), Deadline::Clock::now() + kLook));
  }
  FLOTA_TRY(write_letter(message));
  put(*box, message, std::move(bytes));
  return {};
}

Result<Letter> Mailboxes::receive(const Receive& message, Deadline deadline) {
  Letter taken;  // goes away without the lock
  std::unique_lock lock(mutex_);
  const Name name{message.channel, message.to};
  FLOTA_ASSIGN(auto box, open(name, message.world, message.to));
  const Visit visit(*box);
  if (message.taken == box->taken + 1 && box->given) {
    FLOTA_TRY(write(name, *box, {Event::kTook}));
    taken = take_first(*box);
  }
  for (;;) {
    if (stopped_) return stopping();
    if (box->broken) return *box->broken;
    if (message.taken != box->taken) {
      return invalid(worker(message.to) + " says that it has taken " + std::to_string(message.taken) + " letters" +
                     on(message.channel) + ", but has taken " + std::to_string(box->taken) +
                     (box->over ? ", and that was all; use another name for other letters"
                                : "; a receiver that is restarted cannot go on"));
    }
    if (box->over) return Letter{true, false, 0, nullptr};
    if (!box->letters.empty()) {
      if (!box->given) FLOTA_TRY(write(name, *box, {Event::kGiven}));
      box->given = true;
      return box->letters.front();
    }
    if (box->ended == box->world) {
      FLOTA_TRY(write(name, *box, {Event::kOver}));
      close(name, *box);
      continue;
    }
    if (deadline.passed()) {
      const auto has_ended = [&](uint32_t from) {
        const auto found = box->senders.find(from);
        return found != box->senders.end() && found->second.last;
      };
      return Error{ErrorCode::kDeadline, worker(message.to) + " waited " + seconds(message.wait_ms) + " for a letter" +
                                             on(message.channel) + ": " + missing_workers(box->world, has_ended) +
                                             " of " + std::to_string(box->world) + " did not send their last"};
    }
    box->changed.wait_until(lock, deadline.when());
  }
}

void Mailboxes::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  room_.notify_all();
  for (auto& [name, box] : boxes_) box->changed.notify_all();
}

uint64_t Mailboxes::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace flota
