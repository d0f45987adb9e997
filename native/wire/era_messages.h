#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/result.h"
#include "wire/codec.h"

// Messages about what became of a sparse table's rows over time: eras, and rows that go.
namespace flota {

// Asks where a table stands, and begins an era: rows that change from here on are of it or a later one.
struct Era {
  uint64_t table = 0;
  uint64_t begin = 0;       // 0: none
  uint64_t mark = 0;        // of a save that deltas may go on from: removed rows are remembered from here on; 0: none
  uint64_t keep_since = 0;  // and those that were removed since this era
  bool restore = false;     // it stands as it was saved: `mark` is the only one, and `shrinks` are these
  std::vector<uint64_t> shrinks;  // none, unless it is restored

  void encode(Writer& out) const;
  static Result<Era> decode(std::span<const std::byte> payload);
};

struct EraReply {
  static constexpr size_t kMaxShrinks = 4096;

  static constexpr size_t kMaxMarks = 64;

  uint64_t newest = 0;            // the latest step that a push has brought, or the latest era
  uint64_t removed_since = 0;     // from which era on all removed rows are known
  std::vector<uint64_t> marks;    // of the saves that it has passed, the latest of them
  std::vector<uint64_t> shrinks;  // the eras that began when it was shrunk by age, the latest of them

  void encode(Writer& out) const;
  static Result<EraReply> decode(std::span<const std::byte> payload);
};

// Removes rows, exactly once.
struct Shrink {
  uint64_t table = 0;
  uint64_t worker = 0;  // whose request it is, and which: as in a push
  uint64_t sequence = 0;
  uint64_t oldest = 0;
  uint64_t era = 0;  // which begins now
  uint32_t epoch = 0;
  uint32_t max_age = 0;  // 0: any; else rows go that were not seen since so many shrinks ago
  float decay = 1;
  double min_score = 0;
  double min_norm = 0;
  bool all = false;  // every row goes, and what was seen of waiting keys

  void encode(Writer& out) const;
  static Result<Shrink> decode(std::span<const std::byte> payload);
};

struct ShrinkReply {
  uint64_t removed = 0;

  void encode(Writer& out) const;
  static Result<ShrinkReply> decode(std::span<const std::byte> payload);
};

}  // namespace flota
