#include "wire/mail_messages.h"

#include "common/spec.h"
#include "wire/fields.h"

namespace flota {
namespace {

Result<void> check_channel(const std::string& channel) {
  if (!channel.empty() && channel.size() <= kMaxNameBytes) return {};
  return invalid("a channel needs a name of 1 to 255 bytes");
}

}  // namespace

Result<void> SendHead::check() const {
  FLOTA_TRY(check_channel(channel));
  FLOTA_TRY(check_rank(from, world));
  FLOTA_TRY(check_rank(to, world));
  if (size > kMaxBytes) return Error{ErrorCode::kTooLarge, "more than 8 MiB in a letter"};
  return {};
}

void SendHead::encode(Writer& out) const {
  out.put(from);
  out.put(to);
  out.put(world);
  out.put(static_cast<uint8_t>(last));
  out.pad();
  out.put(incarnation);
  out.put(sequence);
  out.put(wait_ms);
  out.put_string(channel);
  out.put(size);
}

void Send::encode(Writer& out) const {
  SendHead::encode(out);
  out.put_array(bytes);
}

Result<Send> Send::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  Send message;
  message.from = in.get<uint32_t>();
  message.to = in.get<uint32_t>();
  message.world = in.get<uint32_t>();
  FLOTA_ASSIGN(message.last, get_bool(in, "last"));
  in.get_array<uint8_t>(3);
  message.incarnation = in.get<uint64_t>();
  message.sequence = in.get<uint64_t>();
  message.wait_ms = in.get<uint64_t>();
  message.channel = in.get_string(kMaxNameBytes);
  message.size = in.get<uint64_t>();
  message.bytes = in.get_array<std::byte>(message.size);
  FLOTA_TRY(in.finish("a letter"));
  FLOTA_TRY(message.check());
  return message;
}

Result<void> Receive::check() const {
  FLOTA_TRY(check_channel(channel));
  return check_rank(to, world);
}

void Receive::encode(Writer& out) const {
  out.put(to);
  out.put(world);
  out.put(taken);
  out.put(wait_ms);
  out.put_string(channel);
}

Result<Receive> Receive::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  Receive message;
  message.to = in.get<uint32_t>();
  message.world = in.get<uint32_t>();
  message.taken = in.get<uint64_t>();
  message.wait_ms = in.get<uint64_t>();
  message.channel = in.get_string(kMaxNameBytes);
  FLOTA_TRY(in.finish("a receive"));
  FLOTA_TRY(message.check());
  return message;
}

void LetterHead::encode(Writer& out) const {
  out.put(static_cast<uint8_t>(over));
  out.put(static_cast<uint8_t>(last));
  out.put(uint16_t{0});
  out.put(from);
  out.put(size);
}

Result<LetterHead> LetterHead::decode(Reader& in) {
  LetterHead head;
  FLOTA_ASSIGN(head.over, get_bool(in, "over"));
  FLOTA_ASSIGN(head.last, get_bool(in, "last"));
  in.get<uint16_t>();
  head.from = in.get<uint32_t>();
  head.size = in.get<uint64_t>();
  if (!in.ok()) return malformed("a letter without a head");
  if (head.over && (head.last || head.from != 0 || head.size != 0)) return malformed("a letter after the last");
  return head;
}

void LetterReply::encode(Writer& out) const {
  LetterHead::encode(out);
  out.put_array(bytes);
}

Result<LetterReply> LetterReply::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  FLOTA_ASSIGN(LetterHead head, LetterHead::decode(in));
  LetterReply message{head, {}};
  message.bytes = in.get_array<std::byte>(message.size);
  FLOTA_TRY(in.finish("the answer to a receive"));
  return message;
}

}  // namespace flota
