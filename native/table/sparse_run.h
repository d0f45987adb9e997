#pragma once

#include "table/sparse_table.h"

// Private to the table's own files.
namespace flota {

// Keys of one run. Longer runs keep more rows in the cache than it holds, shorter ones let memory idle.
inline constexpr size_t kMaxRun = 32;

// Consecutive keys of one subtable, on their way through the stages of SparseTable::for_each_run.
struct SparseTable::Run {
  size_t first;  // place of the first key in the batch
  size_t size;
  uint32_t subtable;
  uint32_t late;  // a bit for each key that is not in its home line and has not been looked for further on
  bool whole;     // all rows were found, as far as was looked
  uint64_t position[kMaxRun];
  Entry* entry[kMaxRun];
  std::byte* row[kMaxRun];  // null: missing
};
static_assert(kMaxRun <= 32);

}  // namespace flota
