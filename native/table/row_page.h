#pragma once

#include <cstdint>
#include <vector>

#include "common/hash.h"

namespace flota {

// Some whole rows of a table, column by column: what export gives, import takes, and later a checkpoint holds. For a
// dense table a row is a block and its key the block's id.
struct RowPage {
  std::vector<Key> keys;
  std::vector<uint64_t> updates;
  std::vector<uint64_t> last_seen;
  std::vector<float> weights;  // keys.size() * dim, whatever the storage
  std::vector<float> state;    // keys.size() * state floats a row
  uint64_t next = 0;           // where the next page begins
  bool done = false;           // there is no next page
};

}  // namespace flota
