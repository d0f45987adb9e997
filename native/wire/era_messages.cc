#include "wire/era_messages.h"

#include <cmath>

#include "common/push.h"
#include "wire/fields.h"

namespace flota {

namespace {

void put_numbers(Writer& out, const std::vector<uint64_t>& numbers) {
  out.put(static_cast<uint64_t>(numbers.size()));
  for (uint64_t number : numbers) out.put(number);
}

Result<std::vector<uint64_t>> get_numbers(Reader& in, size_t most, const char* what) {
  const auto count = in.get<uint64_t>();
  if (count > most) return malformed(std::string("too many ") + what);
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < count; ++i) numbers.push_back(in.get<uint64_t>());
  return numbers;
}

}  // namespace

void Era::encode(Writer& out) const {
  out.put(table);
  out.put(begin);
  out.put(mark);
  out.put(keep_since);
  out.put(static_cast<uint8_t>(restore));
  out.pad();
  put_numbers(out, shrinks);
}

Result<Era> Era::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  Era message;
  message.table = in.get<uint64_t>();
  message.begin = in.get<uint64_t>();
  message.mark = in.get<uint64_t>();
  message.keep_since = in.get<uint64_t>();
  FLOTA_ASSIGN(message.restore, get_bool(in, "restore"));
  in.get_array<uint8_t>(7);
  FLOTA_ASSIGN(message.shrinks, get_numbers(in, EraReply::kMaxShrinks, "shrinks"));
  FLOTA_TRY(in.finish("an era"));
  if (message.begin > kMaxStep) return invalid("an era must be up to 2^62");
  return message;
}

void EraReply::encode(Writer& out) const {
  out.put(newest);
  out.put(removed_since);
  put_numbers(out, marks);
  put_numbers(out, shrinks);
}

Result<EraReply> EraReply::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  EraReply message;
  message.newest = in.get<uint64_t>();
  message.removed_since = in.get<uint64_t>();
  FLOTA_ASSIGN(message.marks, get_numbers(in, kMaxMarks, "marks"));
  FLOTA_ASSIGN(message.shrinks, get_numbers(in, kMaxShrinks, "shrinks"));
  FLOTA_TRY(in.finish("the answer about an era"));
  return message;
}

void Shrink::encode(Writer& out) const {
  out.put(table);
  out.put(worker);
  out.put(sequence);
  out.put(oldest);
  out.put(era);
  out.put(epoch);
  out.put(max_age);
  out.put(min_score);
  out.put(min_norm);
  out.put(decay);
  out.put(static_cast<uint8_t>(all));
  out.pad();
}

Result<Shrink> Shrink::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  Shrink message;
  message.table = in.get<uint64_t>();
  message.worker = in.get<uint64_t>();
  message.sequence = in.get<uint64_t>();
  message.oldest = in.get<uint64_t>();
  message.era = in.get<uint64_t>();
  message.epoch = in.get<uint32_t>();
  message.max_age = in.get<uint32_t>();
  message.min_score = in.get<double>();
  message.min_norm = in.get<double>();
  message.decay = in.get<float>();
  FLOTA_ASSIGN(message.all, get_bool(in, "all"));
  in.get_array<uint8_t>(3);
  FLOTA_TRY(in.finish("a shrink"));
  if (message.oldest > message.sequence) return malformed("a shrink that was answered before it was sent");
  if (message.era > kMaxStep) return invalid("an era must be up to 2^62");
  if (message.max_age > EraReply::kMaxShrinks) return invalid("max_age must be up to 4,096");
  if (!(message.decay >= 0 && message.decay <= 1)) return invalid("decay must be from 0 to 1");
  if (!(message.min_score >= 0 && std::isfinite(message.min_score)) ||
      !(message.min_norm >= 0 && std::isfinite(message.min_norm))) {
    return invalid("min_score and min_norm must be finite and not negative");
  }
  return message;
}

void ShrinkReply::encode(Writer& out) const { out.put(removed); }

Result<ShrinkReply> ShrinkReply::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  ShrinkReply message{in.get<uint64_t>()};
  FLOTA_TRY(in.finish("the answer to a shrink"));
  return message;
}

}  // namespace flota
