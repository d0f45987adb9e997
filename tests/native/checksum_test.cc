#include "common/checksum.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "testing.h"

using namespace flota;
using namespace flota::testing;

namespace {

uint32_t of(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

// One bit at a time, as the definition has it.
uint32_t plain(std::span<const std::byte> bytes) {
  uint32_t crc = ~0u;
  for (std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0);
  }
  return ~crc;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(checksum)

BOOST_AUTO_TEST_CASE(known_vectors) {
  BOOST_TEST(of("") == 0u);
  BOOST_TEST(of("a") == 0xc1d04330u);
  BOOST_TEST(of("123456789") == 0xe3069283u);
  // RFC 3720, B.4.
  BOOST_TEST(of(std::string(32, '\0')) == 0x8a9136aau);
  BOOST_TEST(of(std::string(32, '\xff')) == 0x62a8ab43u);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  BOOST_TEST(of(ascending) == 0x46dd794eu);
  BOOST_TEST(of(std::string(ascending.rbegin(), ascending.rend())) == 0x113fdb5cu);
}

BOOST_AUTO_TEST_CASE(equals_the_definition_around_every_boundary_of_the_fast_paths) {
  std::mt19937_64 random(3);
  auto bytes = random_bytes(random, 10'000);
  for (size_t middle : {0, 8, 16, 1024, 2048, 3072, 4096, 6144, 9216}) {
    for (size_t length = middle < 9 ? 0 : middle - 9; length <= middle + 9; ++length) {
      // From every alignment.
      for (size_t start : {0, 1, 3, 7}) {
        auto part = std::span<const std::byte>(bytes).subspan(start, length);
        BOOST_TEST(crc32c(part) == plain(part));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(piece_by_piece_equals_whole) {
  std::mt19937_64 random(4);
  auto bytes = random_bytes(random, 40'000);
  for (int round = 0; round < 300; ++round) {
    const size_t length = random() % (bytes.size() + 1);
    auto whole = std::span<const std::byte>(bytes).first(length);
    uint32_t sum = 0;
    for (size_t at = 0; at < length;) {
      size_t piece = std::min<size_t>(length - at, random() % (round % 2 == 0 ? 7000 : 50));
      sum = crc32c(whole.subspan(at, piece), sum);
      at += piece;
    }
    BOOST_TEST(sum == crc32c(whole));
  }
}

BOOST_AUTO_TEST_CASE(every_single_bit_matters) {
  std::mt19937_64 random(5);
  auto bytes = random_bytes(random, 4000);
  const uint32_t good = crc32c(bytes);
  size_t unnoticed = 0;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const auto flip = static_cast<std::byte>(1u << i % 8);
    bytes[i] ^= flip;
    unnoticed += crc32c(bytes) == good;
    bytes[i] ^= flip;
  }
  BOOST_TEST(unnoticed == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
