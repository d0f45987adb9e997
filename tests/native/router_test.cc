#include "common/router.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "testing.h"

using namespace flota;

namespace flota {
struct RouterProbe {
  static uint32_t& stamp() { return Router::scratch().stamp; }
};
}  // namespace flota

namespace {

// A map in which shards belong to servers at random, and perhaps some servers have none.
ShardMap random_map(uint32_t servers, uint64_t seed) {
  std::mt19937_64 random(seed);
  ShardMap map;
  map.servers = servers;
  for (uint16_t& server : map.server_of) server = static_cast<uint16_t>(random() % servers);
  return map;
}

// What route() promises, checked by the slowest means.
void check(const Router& router, const ShardMap& map, const std::vector<Key>& keys) {
  const auto distinct = router.distinct();
  const auto place = router.place();
  const auto first = router.first();
  const std::set<Key> expected(keys.begin(), keys.end());
  BOOST_TEST_REQUIRE(distinct.size() == expected.size());
  BOOST_TEST_REQUIRE(place.size() == keys.size());
  BOOST_TEST_REQUIRE(first.size() == distinct.size());
  BOOST_TEST(router.has_duplicates() == (expected.size() != keys.size()));
  std::map<Key, size_t> first_place;
  for (size_t i = keys.size(); i-- > 0;) first_place[keys[i]] = i;
  size_t wrong = 0;
  for (size_t i = 0; i < keys.size(); ++i) wrong += place[i] >= distinct.size() || distinct[place[i]] != keys[i];
  for (size_t p = 0; p < distinct.size(); ++p) wrong += first[p] != first_place[distinct[p]];
  BOOST_TEST(wrong == 0u);

  BOOST_TEST_REQUIRE(router.begin(0) == 0u);
  BOOST_TEST_REQUIRE(router.end(map.servers - 1) == distinct.size());
  for (uint32_t server = 0; server < map.servers; ++server) {
    if (server > 0) BOOST_TEST_REQUIRE(router.begin(server) == router.end(server - 1));
    for (size_t p = router.begin(server); p < router.end(server); ++p) {
      const uint32_t shard = shard_of(distinct[p]);
      wrong += map.server_of[shard] != server;
      if (p > router.begin(server)) wrong += shard_of(distinct[p - 1]) > shard;
    }
  }
  BOOST_TEST(wrong == 0u);
}

std::vector<Key> keys_of_shard(std::mt19937_64& random, uint32_t shard, size_t count) {
  std::vector<Key> keys(count);
  for (Key& key : keys) key = unhash_key(uint64_t{shard} << (64 - kShardBits) | random() >> kShardBits);
  return keys;
}

std::vector<Key> random_keys(std::mt19937_64& random, size_t count, uint64_t range) {
  std::vector<Key> keys(count);
  for (Key& key : keys) key = range == 0 ? random() : random() % range;
  return keys;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(router)

BOOST_AUTO_TEST_CASE(agrees_with_the_slowest_means) {
  std::mt19937_64 random(1);
  for (uint32_t servers : {1u, 2u, 5u, 64u, 1024u}) {
    for (const ShardMap& map : {ShardMap::even(servers), random_map(servers, servers)}) {
      Router router(map);
      for (size_t count : {1, 2, 17, 1000, 3, 20'000, 100}) {
        for (uint64_t range : {0, 1, 10, 5000}) {
          BOOST_TEST_CONTEXT(servers << " servers, " << count << " keys below " << range) {
            const auto keys = random_keys(random, count, range);
            router.route(keys);
            check(router, map, keys);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(an_empty_batch_is_routed_to_nobody) {
  const ShardMap map = ShardMap::even(3);
  Router router(map);
  for (int i = 0; i < 2; ++i) {
    router.route({});
    check(router, map, {});
    BOOST_TEST(!router.has_duplicates());
    router.route(std::vector<Key>{1, 2, 3});  // nothing of it is left next time
  }
}

BOOST_AUTO_TEST_CASE(every_64_bit_value_is_a_key) {
  const ShardMap map = ShardMap::even(4);
  Router router(map);
  const std::vector<Key> keys = {0, ~uint64_t{0}, 1, 0, uint64_t{1} << 63, ~uint64_t{0}, 0};
  router.route(keys);
  check(router, map, keys);
  BOOST_TEST(router.distinct().size() == 4u);
}

BOOST_AUTO_TEST_CASE(keys_whose_hashes_end_alike_are_told_apart) {
  // All of them want one slot.
  std::vector<Key> keys;
  for (uint64_t i = 0; i < 3'000; ++i) keys.push_back(unhash_key(i << 32 | 5));
  const ShardMap map = ShardMap::even(2);
  Router router(map);
  router.route(keys);
  check(router, map, keys);
}

BOOST_AUTO_TEST_CASE(a_batch_does_not_remember_the_one_before) {
  std::mt19937_64 random(2);
  const ShardMap map = ShardMap::even(3);
  Router router(map);
  for (int round = 0; round < 300; ++round) {
    // Large, small, larger: the same slots with other neighbours.
    const auto keys = random_keys(random, 1 + random() % (round % 10 == 0 ? 3'000 : 50), 200);
    router.route(keys);
    check(router, map, keys);
  }
}

// However few or many keys share a shard, and however often each comes.
BOOST_AUTO_TEST_CASE(shards_of_every_size) {
  std::mt19937_64 random(9);
  const ShardMap map = random_map(3, 4);
  Router router(map);
  for (size_t count : {1, 2, 3, 4, 5, 63, 64, 65, 66, 129, 1000}) {
    for (size_t repeats : {1, 2, 7}) {
      std::vector<Key> keys;
      for (uint32_t shard : {0u, 1u, 512u, kShards - 1}) {
        auto some = keys_of_shard(random, shard, count);
        for (size_t i = 0; i < count * repeats; ++i) keys.push_back(some[random() % count]);
      }
      std::shuffle(keys.begin(), keys.end(), random);
      router.route(keys);
      check(router, map, keys);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_stamp_may_wrap_around) {
  // Stamps are used where many keys are of one shard.
  std::mt19937_64 random(3);
  const ShardMap map = ShardMap::even(2);
  Router router(map);
  // Leaves slots with the stamps 1, 2, 3, which will come again.
  std::vector<std::vector<Key>> batches;
  for (int i = 0; i < 3; ++i) {
    batches.push_back(keys_of_shard(random, 5, 300));
    router.route(batches.back());
  }
  RouterProbe::stamp() = UINT32_MAX - 1;
  for (int i = 0; i < 6; ++i) {
    // Keys of old batches among them: a slot of theirs that looked filled would give a wrong place.
    auto keys = keys_of_shard(random, 5, 200);
    keys.insert(keys.end(), batches[static_cast<size_t>(i) % 3].begin(),
                batches[static_cast<size_t>(i) % 3].begin() + 100);
    router.route(keys);
    check(router, map, keys);
  }
  BOOST_TEST(RouterProbe::stamp() < 10u);
}

BOOST_AUTO_TEST_SUITE_END()
