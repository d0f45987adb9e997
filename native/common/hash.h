#pragma once

#include <cstdint>
#include <string_view>

namespace flota {

// Any 64-bit value is a key.
using Key = uint64_t;

// Keys map to 1,024 virtual shards; shards map to servers (shard_map.h). The number is part of the wire and checkpoint
// formats and never changes.
inline constexpr uint32_t kShardBits = 10;
inline constexpr uint32_t kShards = 1u << kShardBits;

namespace hash_detail {
inline constexpr uint64_t kMultiplier1 = 0x9fb21c651e98df25ull;
inline constexpr uint64_t kMultiplier2 = 0xd6e8feb86659fd93ull;

// The inverse of an odd number modulo 2^64, by Newton's iteration.
constexpr uint64_t inverse(uint64_t odd) {
  uint64_t x = odd;
  for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
  return x;
}
}  // namespace hash_detail

// A bijection of 64-bit values that spreads keys evenly. Shards, subtables and index lines are consecutive ranges of
// its value, so that a shard is one contiguous stretch of an index.
constexpr uint64_t hash_key(Key key) {
  uint64_t h = key;
  h ^= h >> 32;
  h *= hash_detail::kMultiplier1;
  h ^= h >> 32;
  h *= hash_detail::kMultiplier2;
  h ^= h >> 32;
  return h;
}

// hash_key's inverse: an index stores hashes only and still gives keys back.
constexpr Key unhash_key(uint64_t h) {
  h ^= h >> 32;
  h *= hash_detail::inverse(hash_detail::kMultiplier2);
  h ^= h >> 32;
  h *= hash_detail::inverse(hash_detail::kMultiplier1);
  h ^= h >> 32;
  return h;
}

constexpr uint32_t shard_of_hash(uint64_t h) { return static_cast<uint32_t>(h >> (64 - kShardBits)); }
constexpr uint32_t shard_of(Key key) { return shard_of_hash(hash_key(key)); }

// A stable 64-bit name for a string (table names): FNV-1a, then spread.
constexpr uint64_t hash_name(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash_key(h);
}

}  // namespace flota
