#include "server/strangers.h"

#include <vector>

#include "testing.h"

using namespace flota;
using namespace flota::testing;

BOOST_AUTO_TEST_SUITE(strangers)

namespace {

size_t first_to_go_of(const std::vector<std::string>& sources) {
  std::vector<const std::string*> pointers;
  for (const std::string& source : sources) pointers.push_back(&source);
  return first_to_go(pointers);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_oldest_goes_where_all_are_from_one_place) {
  BOOST_TEST(first_to_go_of({"10.0.0.1"}) == 0);
  BOOST_TEST(first_to_go_of({"10.0.0.1", "10.0.0.1", "10.0.0.1"}) == 0);
}

BOOST_AUTO_TEST_CASE(the_oldest_goes_where_each_is_from_a_place_of_its_own) {
  BOOST_TEST(first_to_go_of({"10.0.0.1", "10.0.0.2", "user 1000"}) == 0);
}

BOOST_AUTO_TEST_CASE(a_flood_from_one_place_drives_out_its_own) {
  BOOST_TEST(first_to_go_of({"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.2"}) == 1);
  BOOST_TEST(first_to_go_of({"user 0", "10.0.0.2", "10.0.0.2", "user 0", "10.0.0.2"}) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
