#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "data/buffer.h"
#include "data_rows.h"
#include "testing.h"

using namespace flota;
using namespace flota::testing;

namespace {

// Fills buffers of many sizes that live side by side, each with a byte of its own; whether all keep theirs.
bool keep_their_bytes(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Buffer> buffers(8);
  std::vector<std::byte> fills(buffers.size());
  bool kept = true;
  for (int round = 0; round < 400; ++round) {
    const size_t i = random() % buffers.size();
    const Buffer& old = buffers[i];
    kept &= std::all_of(old.data(), old.data() + old.size(), [&](std::byte each) { return each == fills[i]; });
    Buffer fresh;
    fills[i] = static_cast<std::byte>(random());
    for (size_t pieces = 1 + random() % 3; pieces > 0; --pieces) {
      const size_t bytes = random() % (400 << 10);
      std::memset(fresh.reserve(bytes), static_cast<int>(fills[i]), bytes);
      fresh.advance(bytes);
    }
    std::swap(buffers[i], fresh);
  }
  return kept;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(data_buffer)

BOOST_AUTO_TEST_CASE(a_buffer_keeps_its_bytes_while_it_grows) {
  Buffer buffer;
  std::mt19937_64 random(1);
  std::vector<std::byte> expected;
  // From the heap into pages of its own, and larger ones.
  while (expected.size() < 1 << 20) {
    const std::vector<std::byte> piece = random_bytes(random, random() % 5000);
    std::byte* at = buffer.reserve(piece.size());
    std::copy(piece.begin(), piece.end(), at);
    buffer.advance(piece.size());
    expected.insert(expected.end(), piece.begin(), piece.end());
  }
  BOOST_TEST((bytes_of({buffer.data(), buffer.size()}) == expected));
  Buffer moved(std::move(buffer));
  BOOST_TEST(buffer.size() == 0u);
  Buffer& same = moved;
  moved = std::move(same);
  BOOST_TEST((bytes_of({moved.data(), moved.size()}) == expected));
  buffer = std::move(moved);
  BOOST_TEST((bytes_of({buffer.data(), buffer.size()}) == expected));
  moved.reserve(1);
  moved.advance(1);
  BOOST_TEST(moved.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_buffer_takes_one_large_piece_at_once) {
  Buffer buffer;
  std::memset(buffer.reserve(1 << 20), 1, 1 << 20);
  buffer.advance(1 << 20);
  std::memset(buffer.reserve(3 << 20), 2, 3 << 20);
  buffer.advance(3 << 20);
  BOOST_TEST((buffer.data()[(1 << 20) - 1] == std::byte{1} && buffer.data()[(4 << 20) - 1] == std::byte{2}));
}

BOOST_AUTO_TEST_CASE(buffers_begin_with_what_others_have_freed) {
  const std::byte* before = nullptr;
  {
    Buffer buffer;
    before = buffer.reserve(300 << 10);
  }
  Buffer again;
  BOOST_TEST(again.reserve(200 << 10) == before);
  BOOST_TEST(again.size() == 0u);
  Buffer other;
  BOOST_TEST(other.reserve(200 << 10) != before);
}

BOOST_AUTO_TEST_CASE(no_two_buffers_have_the_same_bytes) {
  std::array<char, 3> kept = {};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kept.size(); ++i) {
    threads.emplace_back([&kept, i] { kept[i] = keep_their_bytes(i); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const char each : kept) BOOST_TEST(each);
}

BOOST_AUTO_TEST_SUITE_END()
