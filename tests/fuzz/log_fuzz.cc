// What a server does with the files that it finds in its folder: the reader of records, and what it makes of them.
#include <cstdint>
#include <vector>

#include "../native/message_samples.h"
#include "record_mutator.h"
#include "server/service.h"

namespace {

using namespace flota;

// Tables that are legal and would only take long to make.
bool too_long(const Record& record) {
  size_t before = 0;
  switch (static_cast<RecordKind>(record.kind)) {
    case RecordKind::kRequest: {
      if (record.payload.size() < 8) return false;
      if (static_cast<MessageKind>(fuzz::load<uint64_t>(reinterpret_cast<const uint8_t*>(record.payload.data()))) !=
          MessageKind::kCreateTable) {
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

void replay(std::span<const std::byte> input) {
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const flota::testing::Payload input(std::as_bytes(std::span(data, size)));
  replay(input.bytes());
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return flota::fuzz::mutate_records(data, size, max_size, seed);
}
