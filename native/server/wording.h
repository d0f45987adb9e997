#pragma once

#include <cstdint>
#include <string>

#include "common/result.h"

// How messages about waits name times and workers.
namespace flota {

inline std::string worker(uint32_t rank) { return "worker " + std::to_string(rank); }

// To an incarnation of a worker that was started again since.
inline Error replaced(uint32_t rank, uint64_t at_work, uint64_t said) {
  return {ErrorCode::kStaleEpoch, worker(rank) + " was started again: incarnation " + std::to_string(at_work) +
                                      " has taken the place of " + std::to_string(said) + ", which must stop"};
}

// "30 s", "0.1 s"
inline std::string seconds(uint64_t ms) {
  const uint64_t tenths = ms / 100;
  return std::to_string(tenths / 10) + (tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10)) + " s";
}

// Those of `world` workers for whom here(rank) is false: "worker 3", "workers 1, 2 and 91 more".
template <class Here>
std::string missing_workers(uint32_t world, Here here) {
  constexpr uint32_t kNamed = 8;
  std::string text;
  uint32_t count = 0;
  for (uint32_t rank = 0; rank < world; ++rank) {
    if (here(rank)) continue;
    if (++count <= kNamed) text += (count > 1 ? ", " : "") + std::to_string(rank);
  }
  if (count > kNamed) text += " and " + std::to_string(count - kNamed) + " more";
  return (count == 1 ? "worker " : "workers ") + text;
}

}  // namespace flota
