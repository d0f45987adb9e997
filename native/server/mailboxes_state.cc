// How mailboxes outlive the process: letters as they were sent and what became of them, and in a snapshot all of it.
#include "common/spec.h"
#include "server/mailboxes.h"
#include "wire/messages.h"

namespace flota {
namespace {

// What a record of a snapshot begins with.
enum class Part : uint64_t {
  kBox = 1,
  kLetter = 2,  // in a box that came before
};

constexpr uint32_t kOver = 1;
constexpr uint32_t kBroken = 2;

// What became of a box; the channel and the error's text follow.
struct EventPart {
  uint64_t event = 0;
  uint32_t to = 0;
  uint32_t world = 0;
  uint32_t from = 0;
  uint32_t code = 0;
  uint64_t incarnation = 0;
};

// The channel, the error's text, the senders, and the incarnations follow.
struct BoxPart {
  Part part = Part::kBox;
  uint32_t to = 0;
  uint32_t world = 0;
  uint32_t flags = 0;
  uint32_t ended = 0;
  uint64_t taken = 0;
  uint64_t code = 0;
  uint64_t senders = 0;
  uint64_t incarnations = 0;
};
struct SenderPart {
  uint32_t from = 0;
  uint32_t last = 0;
  uint64_t incarnation = 0;
  uint64_t sent = 0;
  uint64_t taken = 0;
};
struct IncarnationPart {
  uint64_t from = 0;
  uint64_t incarnation = 0;
};

// The channel and the bytes follow.
struct LetterPart {
  static constexpr uint32_t kLast = 1;
  static constexpr uint32_t kGiven = 2;

  Part part = Part::kLetter;
  uint32_t to = 0;
  uint32_t from = 0;
  uint32_t flags = 0;
  uint32_t zero = 0;
  uint64_t size = 0;
};

std::span<const std::byte> padding_of(uint64_t size) {
  static constexpr std::byte kZeros[8] = {};
  return std::span(kZeros).first(padded(size) - size);
}

Result<void> save_letter(Journal& out, const std::pair<std::string, uint32_t>& name, const Letter& letter, bool given) {
  const uint32_t flags = (letter.last ? LetterPart::kLast : 0) | (given ? LetterPart::kGiven : 0);
  Writer head;
  head.put(LetterPart{Part::kLetter, name.second, letter.from, flags, 0, letter.bytes->size()});
  head.put_string(name.first);
  return out.write(RecordKind::kMailboxes, {head.bytes(), *letter.bytes, padding_of(letter.bytes->size())});
}

}  // namespace

Result<void> Mailboxes::write_letter(const Send& message) const {
  if (journal_ == nullptr) return {};
  Writer head;
  static_cast<const SendHead&>(message).encode(head);
  return journal_->write(RecordKind::kLetter, {head.bytes(), message.bytes, padding_of(message.size)});
}

Result<void> Mailboxes::write(const Name& name, const Box& box, const Told& told) const {
  if (journal_ == nullptr) return {};
  const uint32_t code = told.error == nullptr ? 0 : static_cast<uint32_t>(told.error->code);
  Writer record;
  record.put(EventPart{static_cast<uint64_t>(told.event), name.second, box.world, told.from, code, told.incarnation});
  record.put_string(name.first);
  record.put_string(told.error == nullptr ? "" : told.error->message);
  return write_record(journal_, RecordKind::kTaken, record);
}

Freeze Mailboxes::freeze() {
  Freeze frozen;
  frozen.locks.emplace_back(mutex_);
  return frozen;
}

Result<void> Mailboxes::save(Journal& out) const {
  // Those that have ended in the order in which they are to be forgotten.
  for (const Name& name : ended_) FLOTA_TRY(save_box(out, name, *boxes_.at(name)));
  for (const auto& [name, box] : boxes_) {
    if (box->over || box->broken) continue;
    FLOTA_TRY(save_box(out, name, *box));
    bool given = box->given;
    for (const Letter& letter : box->letters) FLOTA_TRY(save_letter(out, name, letter, std::exchange(given, false)));
  }
  return {};
}

Result<void> Mailboxes::save_box(Journal& out, const Name& name, const Box& box) {
  std::vector<SenderPart> senders;
  for (const auto& [from, sender] : box.senders) {
    senders.push_back({from, sender.last, sender.incarnation, sender.sent, sender.taken});
  }
  std::vector<IncarnationPart> incarnations;
  for (const auto& [from, incarnation] : box.incarnations) incarnations.push_back({from, incarnation});
  BoxPart head;
  head.to = name.second;
  head.world = box.world;
  head.flags = (box.over ? kOver : 0) | (box.broken ? kBroken : 0);
  head.ended = box.ended;
  head.taken = box.taken;
  head.code = box.broken ? static_cast<uint64_t>(box.broken->code) : 0;
  head.senders = senders.size();
  head.incarnations = incarnations.size();
  Writer record;
  record.put(head);
  record.put_string(name.first);
  record.put_string(box.broken ? box.broken->message : "");
  record.put_array(std::span<const SenderPart>(senders));
  record.put_array(std::span<const IncarnationPart>(incarnations));
  return write_record(&out, RecordKind::kMailboxes, record);
}

Result<void> Mailboxes::replay(RecordKind kind, std::span<const std::byte> payload) {
  std::lock_guard lock(mutex_);
  replayed_ = true;
  const auto apply = [&]() -> Result<void> {
    if (kind == RecordKind::kLetter) return replay_letter(payload);
    if (kind == RecordKind::kTaken) return replay_event(payload);
    if (kind != RecordKind::kMailboxes) return unknown_record(kind);
    switch (Reader(payload).get<Part>()) {
      case Part::kBox:
        return replay_box(payload);
      case Part::kLetter:
        return replay_held(payload);
    }
    return malformed("it tells of nothing that is known");
  };
  return replayed(apply(), "mailboxes");
}

Result<std::shared_ptr<Mailboxes::Box>> Mailboxes::replayed_box(const Name& name, uint32_t world) const {
  const auto found = boxes_.find(name);
  if (found == boxes_.end()) return malformed("it has no box");
  const std::shared_ptr<Box>& box = found->second;
  if (box->over || box->broken) return malformed("its box has ended");
  if (box->world != world) return malformed("its box is of another number of workers");
  return box;
}

Result<void> Mailboxes::replay_letter(std::span<const std::byte> payload) {
  FLOTA_ASSIGN(auto message, Send::decode(payload));
  FLOTA_ASSIGN(auto box, replayed_box({message.channel, message.to}, message.world));
  const auto known = box->senders.find(message.from);
  const Sender sender = known == box->senders.end() ? Sender{message.incarnation} : known->second;
  if (sender.incarnation != message.incarnation || sender.sent != message.sequence || sender.last) {
    return malformed("it is not its sender's next letter");
  }
  put(*box, message, std::make_shared<const std::vector<std::byte>>(message.bytes.begin(), message.bytes.end()));
  return {};
}

Result<void> Mailboxes::replay_event(std::span<const std::byte> payload) {
  Reader in(payload);
  const auto head = in.get<EventPart>();
  const std::string channel = in.get_string(kMaxNameBytes);
  std::string text = in.get_string(kMaxMessageText);
  FLOTA_TRY(in.finish("what became of a box"));
  const Name name{channel, head.to};
  if (static_cast<Event>(head.event) == Event::kOpened) {
    FLOTA_TRY(check_rank(head.to, head.world));
    if (!boxes_.emplace(name, std::make_shared<Box>(head.world)).second) return malformed("its box was open already");
    return {};
  }
  FLOTA_ASSIGN(auto box, replayed_box(name, head.world));
  switch (static_cast<Event>(head.event)) {
    case Event::kOpened:
      break;
    case Event::kGiven:
      if (box->letters.empty()) return malformed("there was no letter to give");
      box->given = true;
      return {};
    case Event::kTook:
      if (box->letters.empty() || !box->given) return malformed("there was no letter to take");
      take_first(*box);
      return {};
    case Event::kOver:
      if (!box->letters.empty() || box->ended != box->world) return malformed("there were letters to come");
      close(name, *box);
      return {};
    case Event::kBroken:
      if (!is_error_code(head.code)) return malformed("there is no such error");
      break_box(name, *box, {static_cast<ErrorCode>(head.code), std::move(text)});
      return {};
    case Event::kAnew:
      FLOTA_TRY(check_rank(head.from, head.world));
      if (box->given && box->letters.front().from == head.from) return malformed("its letter was given already");
      begin_anew(*box, head.from, head.incarnation);
      return {};
  }
  return malformed("it tells of nothing that is known");
}

Result<void> Mailboxes::replay_box(std::span<const std::byte> payload) {
  Reader in(payload);
  const auto head = in.get<BoxPart>();
  const Name name{in.get_string(kMaxNameBytes), head.to};
  std::string text = in.get_string(kMaxMessageText);
  const auto senders = in.get_array<SenderPart>(head.senders);
  const auto incarnations = in.get_array<IncarnationPart>(head.incarnations);
  FLOTA_TRY(in.finish("a box"));
  FLOTA_TRY(check_rank(head.to, head.world));
  auto box = std::make_shared<Box>(head.world);
  box->taken = head.taken;
  box->ended = head.ended;
  box->over = (head.flags & kOver) != 0;
  for (const SenderPart& part : senders) {
    FLOTA_TRY(check_rank(part.from, head.world));
    const Sender sender{part.incarnation, part.sent, part.taken, part.last != 0};
    if (!box->senders.emplace(part.from, sender).second) return malformed("a sender stands there twice");
  }
  for (const IncarnationPart& part : incarnations) {
    if (part.from >= head.world) return malformed("there is no such sender");
    box->incarnations[static_cast<uint32_t>(part.from)] = part.incarnation;
  }
  if ((head.flags & kBroken) != 0) {
    if (!is_error_code(head.code)) return malformed("there is no such error");
    box->broken = Error{static_cast<ErrorCode>(head.code), std::move(text)};
  }
  const bool has_ended = box->over || box->broken;
  if (!boxes_.emplace(name, std::move(box)).second) return malformed("a box stands there twice");
  if (has_ended) ended_.push_back(name);
  return {};
}

Result<void> Mailboxes::replay_held(std::span<const std::byte> payload) {
  Reader in(payload);
  const auto head = in.get<LetterPart>();
  const Name name{in.get_string(kMaxNameBytes), head.to};
  const auto bytes = in.get_array<std::byte>(head.size);
  FLOTA_TRY(in.finish("a letter"));
  const auto found = boxes_.find(name);
  if (found == boxes_.end() || found->second->over || found->second->broken) return malformed("it has no box");
  Box& box = *found->second;
  if (!box.senders.contains(head.from)) return malformed("it has no sender");
  const bool given = (head.flags & LetterPart::kGiven) != 0;
  if (given && !box.letters.empty()) return malformed("it was given before another one");
  box.given |= given;
  box.letters.push_back({false, (head.flags & LetterPart::kLast) != 0, head.from,
                         std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end())});
  box.bytes += head.size;
  bytes_ += head.size;
  return {};
}

}  // namespace flota
