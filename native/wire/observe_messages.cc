#include "wire/observe_messages.h"

#include "common/histogram.h"
#include "wire/fields.h"

namespace flota {
namespace {

constexpr uint64_t kMostEntries = 1u << 20;

// How many follow, of which each takes at least `least` bytes.
Result<uint64_t> get_count(Reader& in, size_t least, const char* what) {
  const auto count = in.get<uint64_t>();
  if (in.ok() && (count > kMostEntries || count > in.left() / least)) {
    return malformed(std::string("more ") + what + " than the message has room for");
  }
  return in.ok() ? count : 0;
}

void put_bytes(Writer& out, std::span<const std::byte> bytes) {
  out.put(static_cast<uint64_t>(bytes.size()));
  out.put_array(bytes);
}

Result<std::span<const std::byte>> get_bytes(Reader& in, size_t limit) {
  const auto size = in.get<uint64_t>();
  if (size > limit) return malformed("a note is longer than notes of its topic may be");
  return in.get_array<std::byte>(size);
}

Result<RequestCounts> get_requests(Reader& in) {
  RequestCounts found;
  const auto kind = in.get<uint64_t>();
  if (kind > 0xff) return malformed("the kind of a request is a byte");
  found.kind = static_cast<MessageKind>(kind);
  found.count = in.get<uint64_t>();
  found.nanoseconds = in.get<uint64_t>();
  found.bytes_in = in.get<uint64_t>();
  found.bytes_out = in.get<uint64_t>();
  FLOTA_ASSIGN(const uint64_t buckets, get_count(in, 16, "buckets"));
  for (uint64_t i = 0; i < buckets && in.ok(); ++i) {
    const auto bucket = in.get<uint64_t>();
    if (bucket >= Histogram::kBuckets) return malformed("there is no such bucket of a histogram");
    found.buckets.emplace_back(static_cast<uint32_t>(bucket), in.get<uint64_t>());
  }
  return found;
}

Result<TableHeat> get_heat(Reader& in) {
  TableHeat found;
  found.table = in.get_string(kMaxNameBytes);
  found.sampled = in.get<uint64_t>();
  const auto shards = in.get<uint64_t>();
  if (shards != 0 && shards != kShards) return malformed("the heat of a table is of 1,024 shards, or of none");
  const auto counts = in.get_array<uint32_t>(shards);
  found.shards.assign(counts.begin(), counts.end());
  FLOTA_ASSIGN(const uint64_t keys, get_count(in, 16, "keys"));
  for (uint64_t i = 0; i < keys && in.ok(); ++i) {
    const auto key = in.get<uint64_t>();
    found.keys.push_back({key, in.get<uint64_t>()});
  }
  return found;
}

Result<Note> get_note(Reader& in) {
  Note found;
  FLOTA_ASSIGN(found.topic, get_enum(in, Topic::kWish, "topic of a note"));
  in.get<uint8_t>();
  in.get<uint16_t>();
  found.rank = in.get<uint32_t>();
  found.version = in.get<uint64_t>();
  found.age_ms = in.get<uint64_t>();
  FLOTA_ASSIGN(const auto bytes, get_bytes(in, most_bytes(found.topic)));
  found.bytes.assign(bytes.begin(), bytes.end());
  return found;
}

}  // namespace

const char* to_string(Topic topic) {
  constexpr const char* kNames[] = {"", "state", "trace", "wish"};
  return kNames[static_cast<size_t>(topic)];
}

size_t most_bytes(Topic topic) {
  constexpr size_t kMost[] = {0, size_t{16} << 10, size_t{1} << 20, size_t{4} << 10};
  return kMost[static_cast<size_t>(topic)];
}

void Post::encode(Writer& out) const {
  out.put(static_cast<uint8_t>(topic));
  out.put(uint8_t{0});
  out.put(uint16_t{0});
  out.put(rank);
  out.put(known);
  put_bytes(out, note);
}

Result<Post> Post::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  Post message;
  FLOTA_ASSIGN(message.topic, get_enum(in, Topic::kWish, "topic of a note"));
  in.get<uint8_t>();
  in.get<uint16_t>();
  message.rank = in.get<uint32_t>();
  message.known = in.get<uint64_t>();
  FLOTA_ASSIGN(message.note, get_bytes(in, most_bytes(message.topic)));
  FLOTA_TRY(in.finish("a note"));
  if (message.rank >= kMaxRank) return invalid("a job has at most 1,048,576 workers");
  if (message.topic == Topic::kWish && message.rank != 0) return invalid("a wish is nobody's: its rank is 0");
  return message;
}

void PostReply::encode(Writer& out) const {
  out.put(wish_version);
  put_bytes(out, wish);
}

Result<PostReply> PostReply::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  PostReply message;
  message.wish_version = in.get<uint64_t>();
  FLOTA_ASSIGN(const auto wish, get_bytes(in, most_bytes(Topic::kWish)));
  message.wish.assign(wish.begin(), wish.end());
  FLOTA_TRY(in.finish("the answer to a note"));
  return message;
}

void Observe::encode(Writer& out) const {
  out.put(parts);
  out.put(uint32_t{0});
  out.put(since);
}

Result<Observe> Observe::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  Observe message;
  message.parts = in.get<uint32_t>();
  in.get<uint32_t>();
  message.since = in.get<uint64_t>();
  FLOTA_TRY(in.finish("a question how the server does"));
  if ((message.parts & ~kAll) != 0)
    return malformed("a question how the server does asks for parts that there are none");
  return message;
}

void ObserveReply::encode(Writer& out) const {
  StatisticsReply{statistics}.encode(out);
  out.put(static_cast<uint64_t>(requests.size()));
  for (const RequestCounts& one : requests) {
    out.put(static_cast<uint64_t>(one.kind));
    out.put(one.count);
    out.put(one.nanoseconds);
    out.put(one.bytes_in);
    out.put(one.bytes_out);
    out.put(static_cast<uint64_t>(one.buckets.size()));
    for (const auto& [bucket, count] : one.buckets) {
      out.put(uint64_t{bucket});
      out.put(count);
    }
  }
  out.put(static_cast<uint64_t>(heat.size()));
  for (const TableHeat& one : heat) {
    out.put_string(one.table);
    out.put(one.sampled);
    out.put(static_cast<uint64_t>(one.shards.size()));
    out.put_array(std::span(one.shards));
    out.put(static_cast<uint64_t>(one.keys.size()));
    for (const auto& [key, count] : one.keys) {
      out.put(key);
      out.put(count);
    }
  }
  out.put(static_cast<uint64_t>(notes.size()));
  for (const Note& note : notes) {
    out.put(static_cast<uint8_t>(note.topic));
    out.put(uint8_t{0});
    out.put(uint16_t{0});
    out.put(note.rank);
    out.put(note.version);
    out.put(note.age_ms);
    put_bytes(out, note.bytes);
  }
}

Result<ObserveReply> ObserveReply::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  ObserveReply message;
  FLOTA_ASSIGN(message.statistics, get_statistics(in));
  FLOTA_ASSIGN(const uint64_t requests, get_count(in, 48, "kinds of requests"));
  for (uint64_t i = 0; i < requests && in.ok(); ++i) {
    FLOTA_ASSIGN(auto one, get_requests(in));
    message.requests.push_back(std::move(one));
  }
  FLOTA_ASSIGN(const uint64_t tables, get_count(in, 32, "tables"));
  for (uint64_t i = 0; i < tables && in.ok(); ++i) {
    FLOTA_ASSIGN(auto one, get_heat(in));
    message.heat.push_back(std::move(one));
  }
  FLOTA_ASSIGN(const uint64_t notes, get_count(in, 32, "notes"));
  for (uint64_t i = 0; i < notes && in.ok(); ++i) {
    FLOTA_ASSIGN(auto one, get_note(in));
    message.notes.push_back(std::move(one));
  }
  FLOTA_TRY(in.finish("the answer how the server does"));
  return message;
}

}  // namespace flota
