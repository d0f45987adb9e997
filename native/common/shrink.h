#pragma once

#include <cstdint>

namespace flota {

// Which rows go when a table is shrunk. What is 0 removes nothing.
struct ShrinkSpec {
  uint64_t unseen_since = 0;  // rows that were last seen before this era
  float decay = 1;            // multiplies shows and clicks of all rows first
  double min_score = 0;       // rows of a lower score
  double min_norm = 0;        // rows whose weights have a lower Euclidean norm
  bool all = false;           // all of them, and what was seen of waiting keys
};

}  // namespace flota
