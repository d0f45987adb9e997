#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/hash.h"
#include "server/registry.h"

namespace flota {

// A worker's push that waits for the other workers' of the same step.
struct HeldPush {
  std::shared_ptr<HostedTable> table;
  float lr = 0;
  float scale = 1;
  std::vector<Key> keys;       // sparse: each once
  std::vector<size_t> places;  // dense: which blocks, ascending
  std::vector<float> values;
  std::vector<float> shows = {};   // sparse: how often each key appeared, or none
  std::vector<float> clicks = {};  // how often with a click, or none
  uint32_t incarnation = 0;        // of the worker
};

// What one worker gave to a step.
struct Share {
  double weight = 0;  // all workers' weights add up to 1
  std::span<const HeldPush> pushes;
};

// The rows that a step has changed.
struct ChangedRows {
  uint64_t table = 0;
  std::vector<Key> keys;
};

// Applies the weighted average of all shares' gradients, each table's rule once for each row or block that any of them
// touched. Sums in the order of the shares, so the same shares in the same order give the same bits. The learning rate
// is that of the first share that has the table.
std::vector<ChangedRows> apply_average(std::span<const Share> shares, uint64_t step);

}  // namespace flota
