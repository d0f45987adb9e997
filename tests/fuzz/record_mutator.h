#pragma once

#include <cstring>

#include "durable/record_file.h"
#include "frame_mutator.h"

// As frame_mutator.h does for frames: changes a file of records and then, mostly, makes its numbers, lengths and
// checksums right again.
namespace flota::fuzz {

inline constexpr uint32_t kRecordMagic = 0x464c5200;

inline void repair_records(uint8_t* data, size_t size, bool lengths, std::mt19937_64& random) {
  if (size >= FileHead::kBytes && random() % 16 != 0) {
    const auto head = FileHead{random() % 8 == 0 ? FileKind::kSnapshot : FileKind::kLog, 1, 0, 1, 1}.encode();
    std::memcpy(data, head.data(), head.size());
  }
  uint32_t number = 0;
  for (size_t at = FileHead::kBytes; at + kRecordHeadBytes <= size; ++number) {
    uint8_t* head = data + at;
    auto magic = load<uint32_t>(head);
    if ((magic & ~0xffu) != kRecordMagic || random() % 32 == 0) {
      constexpr uint8_t kKinds[] = {1, 2, 3, 4, 5, 6, 7, 8, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 63};
      magic = kRecordMagic | kKinds[random() % std::size(kKinds)];
    }
    store(head, magic);
    store(head + 4, number);
    const size_t room = size - at - kRecordHeadBytes;
    auto length = load<uint64_t>(head + 8);
    if (lengths && (length > room || padded_record(length) > room)) {
      length = room / 8 * 8;
      store(head + 8, length);
    }
    if (length > room || padded_record(length) > room) {
      store(head + 20, sum_of(head, 20));
      return;
    }
    store(head + 16, sum_of(head + kRecordHeadBytes, padded_record(length)));
    store(head + 20, sum_of(head, 20));
    at += kRecordHeadBytes + padded_record(length);
  }
}

inline size_t mutate_records(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::mt19937_64 random(seed);
  for (uint64_t i = random() % 4; i > 0 || size == 0; i -= i > 0) size = LLVMFuzzerMutate(data, size, max_size);
  const uint64_t what = random() % 8;
  if (what != 0) repair_records(data, size, what != 1, random);
  return size;
}

}  // namespace flota::fuzz
