#include "table/pages.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <random>
#include <vector>

using namespace flota;

namespace {

bool zeroed(const Pages& pages) {
  return std::all_of(pages.data(), pages.data() + pages.bytes(), [](std::byte value) { return value == std::byte{0}; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pages)

// Pieces of all sizes come and go, so that they are cut from, joined with and taken again from free ones in every way
// there is, and are laid on huge pages again now and then. Each must come zeroed, and must keep what was written to it
// until it goes.
BOOST_AUTO_TEST_CASE(pieces_come_zeroed_and_keep_to_themselves) {
  struct Piece {
    Pages pages;
    std::byte mark;
  };
  std::mt19937 random(5);
  PagePool pool;
  std::vector<Piece> pieces;
  for (int step = 0; step < 400; ++step) {
    if (step % 50 == 49) pool.collapse([] { return true; });
    if (pieces.size() < 12 || random() % 2 == 0) {
      const size_t bytes = 1 + random() % (size_t{1} << (10 + random() % 14));
      Piece piece{pool.take(bytes), static_cast<std::byte>(1 + step % 255)};
      BOOST_REQUIRE_GE(piece.pages.bytes(), bytes);
      BOOST_REQUIRE_EQUAL(reinterpret_cast<uintptr_t>(piece.pages.data()) % 64, 0u);
      BOOST_REQUIRE(zeroed(piece.pages));
      std::memset(piece.pages.data(), static_cast<int>(piece.mark), piece.pages.bytes());
      pieces.push_back(std::move(piece));
    } else {
      std::swap(pieces[random() % pieces.size()], pieces.back());
      const Piece& last = pieces.back();
      BOOST_REQUIRE(std::all_of(last.pages.data(), last.pages.data() + last.pages.bytes(),
                                [&](std::byte value) { return value == last.mark; }));
      pieces.pop_back();
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
