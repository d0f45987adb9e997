#include "client/blocks.h"

#include <algorithm>

#include "common/hash.h"

namespace flota {
namespace {

constexpr uint64_t kMaxBlock = 4ull << 20;  // elements

}  // namespace

std::vector<PlacedBlock> place_blocks(const std::string& name, uint64_t size, const Slicing& slicing,
                                      uint32_t servers) {
  uint64_t count = 1;
  if (slicing.slice) {
    count = std::clamp<uint64_t>(size / std::max<uint64_t>(1, slicing.min_block), 1, servers);
    // A very large parameter has more blocks than servers: each must fit a frame, and is locked while it is updated.
    count = std::max(count, (size + kMaxBlock - 1) / kMaxBlock);
  }
  // Multiples of 16 elements: no two blocks share a cache line.
  const uint64_t length = ((size + count - 1) / count + 15) / 16 * 16;
  // Small parameters have one block each; beginning at a place that depends on the name spreads those, too.
  const uint64_t start = hash_name(name);
  std::vector<PlacedBlock> blocks;
  for (uint64_t offset = 0; offset < size; offset += length) {
    auto id = static_cast<uint32_t>(blocks.size());
    uint64_t turn = slicing.method == SplitMethod::kRoundRobin ? start % servers + id
                                                               : hash_name(name + ".block" + std::to_string(id));
    blocks.push_back({{id, offset, std::min(length, size - offset)}, static_cast<uint32_t>(turn % servers)});
  }
  return blocks;
}

}  // namespace flota
