#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "../native/message_samples.h"
#include "durable/record_file.h"
#include "server/service.h"

// What log_fuzz does with an input.
namespace flota::fuzz {

// Tables that are legal and would only take long to make.
inline bool too_long(const Record& record) {
  size_t before = 0;
  switch (static_cast<RecordKind>(record.kind)) {
    case RecordKind::kRequest: {
      if (record.payload.size() < 8) return false;
      if (static_cast<MessageKind>(Reader(record.payload).get<uint64_t>()) != MessageKind::kCreateTable) {
        return false;
      }
      before = sizeof(uint64_t);
      break;
    }
    case RecordKind::kTable:
      before = 7 * sizeof(uint64_t);
      break;
    default:
      return false;
  }
  if (record.payload.size() < before) return false;
  const auto message = CreateTable::decode(record.payload.subspan(before));
  return message && (message->spec.size() > 4096 || message->spec.dim > 64);
}

inline void log_target(std::span<const std::byte> input) {
  auto source = [input](uint64_t offset, std::span<std::byte> into) -> Result<size_t> {
    const size_t count = std::min(into.size(), input.size() - static_cast<size_t>(offset));
    std::memcpy(into.data(), input.data() + offset, count);
    return count;
  };
  RecordReader reader(source, input.size(), "the input");
  if (!reader.head(FileKind::kLog) && !reader.head(FileKind::kSnapshot)) return;
  Service service(std::chrono::milliseconds(1000), kDefaultMaxPayload, [] {});
  for (;;) {
    const auto record = reader.next();
    if (!record || !*record) break;
    if ((*record)->kind == kEndRecord || too_long(**record)) break;
    if (!service.replay(static_cast<RecordKind>((*record)->kind), (*record)->payload, input.size())) break;
  }
  if (reader.end() > input.size()) std::abort();
}

}  // namespace flota::fuzz
