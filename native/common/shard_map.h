#pragma once

#include <array>
#include <cstdint>

#include "common/hash.h"

namespace flota {

// Which server holds which virtual shard. Versioned: when servers are added or leave, a new map takes the old one's
// place, and both sides can tell them apart.
struct ShardMap {
  uint32_t version = 1;
  uint32_t servers = 1;
  std::array<uint16_t, kShards> server_of{};

  // The map a job begins with: shard s on server s modulo `servers`, so that each server's shards are spread over the
  // whole range of hashes.
  static ShardMap even(uint32_t servers) {
    ShardMap map;
    map.servers = servers;
    for (uint32_t shard = 0; shard < kShards; ++shard) map.server_of[shard] = static_cast<uint16_t>(shard % servers);
    return map;
  }
};

}  // namespace flota
