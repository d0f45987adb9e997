#include "client/blocks.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "testing.h"

using namespace flota;

namespace {

constexpr uint64_t kSizes[] = {1, 15, 16, 17, 8191, 8192, 8193, 16384, 100'000, 1'000'003, 50'000'000};

}  // namespace

BOOST_AUTO_TEST_SUITE(blocks)

BOOST_AUTO_TEST_CASE(blocks_cover_a_parameter_exactly_and_in_order) {
  for (uint64_t size : kSizes) {
    for (uint32_t servers : {1u, 2u, 5u, 100u}) {
      for (SplitMethod method : {SplitMethod::kRoundRobin, SplitMethod::kHashName}) {
        for (bool slice : {true, false}) {
          BOOST_TEST_CONTEXT(size << " elements, " << servers << " servers, slice " << slice) {
            uint64_t offset = 0;
            uint32_t id = 0;
            for (const PlacedBlock& placed : place_blocks("layer/weight", size, {slice, 8192, method}, servers)) {
              BOOST_TEST_REQUIRE(placed.block.id == id++);
              BOOST_TEST_REQUIRE(placed.block.offset == offset);
              BOOST_TEST_REQUIRE(placed.block.length > 0u);
              BOOST_TEST_REQUIRE(placed.server < servers);
              offset += placed.block.length;
            }
            BOOST_TEST(offset == size);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_parameter_is_cut_into_no_smaller_blocks_than_the_minimum) {
  for (uint64_t size : kSizes) {
    for (uint64_t min_block : {1, 100, 8192, 1'000'000}) {
      const auto blocks = place_blocks("p", size, {true, min_block, SplitMethod::kRoundRobin}, 7);
      // The last may be short: the others were rounded up.
      for (size_t i = 0; i + 1 < blocks.size(); ++i) BOOST_TEST(blocks[i].block.length >= min_block);
      if (size < 2 * min_block && size <= 4u << 20) BOOST_TEST(blocks.size() == 1u);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_large_parameter_is_spread_over_all_servers_evenly) {
  for (uint32_t servers : {2u, 3u, 5u, 8u}) {
    std::map<uint32_t, uint64_t> held;
    for (const auto& placed : place_blocks("p", 1'000'000, {}, servers)) held[placed.server] += placed.block.length;
    BOOST_TEST(held.size() == servers);
    for (const auto& [server, elements] : held) BOOST_TEST(elements <= 1'000'000 / servers + 32);
  }
}

BOOST_AUTO_TEST_CASE(no_two_blocks_share_a_cache_line) {
  for (uint64_t size : kSizes) {
    for (const auto& placed : place_blocks("p", size, {true, 1, SplitMethod::kRoundRobin}, 13)) {
      BOOST_TEST(placed.block.offset % 16 == 0u);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_block_always_fits_a_frame) {
  for (uint32_t servers : {1u, 3u}) {
    for (const auto& placed : place_blocks("p", 100'000'000, {}, servers)) {
      BOOST_TEST(placed.block.length * sizeof(float) <= 64u << 20);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_parameter_that_must_not_be_cut_stays_whole) {
  for (uint64_t size : kSizes) {
    const auto blocks = place_blocks("p", size, {false, 1, SplitMethod::kRoundRobin}, 9);
    BOOST_TEST(blocks.size() == 1u);
    BOOST_TEST(blocks[0].block.length == size);
  }
}

BOOST_AUTO_TEST_CASE(round_robin_takes_one_server_after_another) {
  const auto blocks = place_blocks("p", 5 * 8192, {true, 8192, SplitMethod::kRoundRobin}, 5);
  BOOST_TEST_REQUIRE(blocks.size() == 5u);
  for (size_t i = 1; i < blocks.size(); ++i) BOOST_TEST(blocks[i].server == (blocks[i - 1].server + 1) % 5);
}

BOOST_AUTO_TEST_CASE(small_parameters_are_spread_by_their_names) {
  for (SplitMethod method : {SplitMethod::kRoundRobin, SplitMethod::kHashName}) {
    std::set<uint32_t> servers;
    for (int i = 0; i < 60; ++i) {
      servers.insert(place_blocks("bias" + std::to_string(i), 10, {true, 8192, method}, 4)[0].server);
    }
    BOOST_TEST(servers.size() == 4u);
  }
}

// Workers that start at other times, and servers that load a checkpoint, must come to the same answer.
BOOST_AUTO_TEST_CASE(places_never_change) {
  auto servers_of = [](const std::string& name, SplitMethod method) {
    std::vector<uint32_t> servers;
    for (const auto& placed : place_blocks(name, 100'000, {true, 8192, method}, 5)) servers.push_back(placed.server);
    return servers;
  };
  BOOST_TEST(servers_of("layer/weight", SplitMethod::kRoundRobin) == (std::vector<uint32_t>{2, 3, 4, 0, 1}));
  BOOST_TEST(servers_of("layer/weight", SplitMethod::kHashName) == (std::vector<uint32_t>{1, 0, 2, 3, 1}));
}

BOOST_AUTO_TEST_SUITE_END()
