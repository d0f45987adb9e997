#include "common/hash.h"

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "common/shard_map.h"
#include "testing.h"

using namespace flota;

namespace {

std::vector<Key> edge_keys() {
  std::vector<Key> keys = {0, 1, 2, ~uint64_t{0}, 0x00000000ffffffffull, 0xffffffff00000000ull, 0x5555555555555555ull};
  for (int bit = 0; bit < 64; ++bit) {
    keys.push_back(uint64_t{1} << bit);
    keys.push_back((uint64_t{1} << bit) - 1);
    keys.push_back(~(uint64_t{1} << bit));
  }
  return keys;
}

// How far the numbers of keys a shard are from even, in standard deviations of chi-square.
template <class KeyAt>
double unevenness(KeyAt key_at) {
  constexpr size_t kKeys = size_t{1} << 19;
  std::array<double, kShards> count{};
  for (uint64_t i = 0; i < kKeys; ++i) ++count[shard_of(key_at(i))];
  const double expected = double{kKeys} / kShards;
  double chi_square = 0;
  for (double seen : count) chi_square += (seen - expected) * (seen - expected) / expected;
  constexpr double kFreedom = kShards - 1;
  return (chi_square - kFreedom) / std::sqrt(2 * kFreedom);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(hash)

BOOST_AUTO_TEST_CASE(unhash_gives_back_edge_keys) {
  for (Key key : edge_keys()) {
    BOOST_TEST(unhash_key(hash_key(key)) == key);
    BOOST_TEST(hash_key(unhash_key(key)) == key);
  }
}

BOOST_AUTO_TEST_CASE(unhash_gives_back_random_keys) {
  std::mt19937_64 random(1);
  size_t wrong = 0;
  for (int i = 0; i < 200'000; ++i) {
    Key key = random();
    wrong += unhash_key(hash_key(key)) != key || hash_key(unhash_key(key)) != key;
  }
  BOOST_TEST(wrong == 0u);
}

// Checkpoints and other servers know keys by these numbers. The expected ones come from a Python transcription of the
// formula in docs/wire_format.md.
BOOST_AUTO_TEST_CASE(hashes_never_change) {
  BOOST_TEST(hash_key(0) == 0u);
  BOOST_TEST(hash_key(1) == 0xc08d66990f493b59u);
  BOOST_TEST(hash_key(2) == 0x1ac0cfa085487420u);
  BOOST_TEST(hash_key(42) == 0xd6b76741dd31fe1eu);
  BOOST_TEST(hash_key(0xdeadbeef) == 0x8e0810597b8644cbu);
  BOOST_TEST(hash_key(1ull << 32) == 0xaef414fe2f371783u);
  BOOST_TEST(hash_key(1ull << 63) == 0x80273bbd48ce616bu);
  BOOST_TEST(hash_key(~0ull) == 0x8f22875f88f1cb9eu);
  BOOST_TEST(shard_of(1) == 770u);
  BOOST_TEST(shard_of(~0ull) == 572u);
}

BOOST_AUTO_TEST_CASE(names_of_tables_never_change) {
  BOOST_TEST(hash_name("") == 0xff1ffc0afebe48dau);
  BOOST_TEST(hash_name("users") == 0xf97e279b4fe2f2f2u);
  BOOST_TEST(hash_name("embedding/user_id") == 0x257ced922c096f23u);
  BOOST_TEST(hash_name("weights") == 0x0893e939a320b1b4u);
}

BOOST_AUTO_TEST_CASE(keys_of_every_pattern_spread_evenly_over_shards) {
  std::mt19937_64 random(2);
  BOOST_TEST(std::abs(unevenness([&](uint64_t) { return random(); })) < 6);
  BOOST_TEST(std::abs(unevenness([](uint64_t i) { return i; })) < 6);
  BOOST_TEST(std::abs(unevenness([](uint64_t i) { return ~i; })) < 6);
  // Feature numbers in high bits, counts in low ones: what recommenders make of their ids.
  for (int shift : {1, 8, 16, 20, 32, 40, 44}) {
    BOOST_TEST_CONTEXT("keys that are multiples of 2^" << shift) {
      BOOST_TEST(std::abs(unevenness([&](uint64_t i) { return i << shift; })) < 6);
    }
  }
  BOOST_TEST(std::abs(unevenness([](uint64_t i) { return (i % 64) << 58 | i / 64; })) < 6);
  BOOST_TEST(std::abs(unevenness([](uint64_t i) { return i * 1000; })) < 6);
}

BOOST_AUTO_TEST_CASE(an_even_map_gives_every_server_its_share) {
  for (uint32_t servers : {1u, 2u, 5u, 7u, 1024u}) {
    ShardMap map = ShardMap::even(servers);
    std::vector<uint32_t> shards(servers);
    for (uint16_t server : map.server_of) ++shards.at(server);
    for (uint32_t count : shards) BOOST_TEST((count == kShards / servers || count == kShards / servers + 1));
  }
}

BOOST_AUTO_TEST_SUITE_END()
