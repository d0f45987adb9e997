#include "table/replica.h"

#include "cluster.h"
#include "sparse_rows.h"

using namespace flota;
using namespace flota::testing;

BOOST_AUTO_TEST_SUITE(replica)

BOOST_AUTO_TEST_CASE(it_holds_what_it_was_filled_with_and_says_what_is_missing) {
  Replica replica(sparse_spec(3));
  const auto keys = random_keys(500, 1);
  BOOST_TEST(replica.missing(keys).size() == keys.size());
  const auto rows = random_rows(300 * 3, 2);
  replica.fill(std::span(keys).first(300), rows.data());
  BOOST_TEST(replica.missing(keys) == std::vector<Key>(keys.begin() + 300, keys.end()));
  BOOST_TEST(testing::pulled(replica.table(), std::span(keys).first(300)) == rows);
}

BOOST_AUTO_TEST_CASE(moves_are_counted_from_the_first_touch) {
  Replica replica(zeros(2));
  const std::vector<Key> keys = {5, 6, 7};
  const std::vector<float> start = {1, 2, 3, 4, 5, 6};
  replica.fill(keys, start.data());
  for (int step = 0; step < 3; ++step) {
    const std::vector<Key> batch = {7, 5};
    const std::vector<float> change = {1, 0, 0.5, -1};
    replica.touch(batch);
    replica.table().push(PushKind::kDelta, Step{0, 1, 0}, batch, change.data());
  }
  auto moves = replica.take_moves();
  BOOST_TEST(moves.keys == (std::vector<Key>{7, 5}));
  BOOST_TEST(moves.values == (std::vector<float>{3, 0, 1.5, -3}));
  BOOST_TEST(replica.take_moves().keys.empty());
}

BOOST_AUTO_TEST_CASE(rows_that_are_filled_again_keep_their_state) {
  TableSpec spec = zeros(1);
  spec.rule.kind = RuleKind::kAdagrad;
  Replica replica(spec);
  const std::vector<Key> keys = {9};
  const float zero = 0;
  const float one = 1;
  replica.fill(keys, &zero);
  replica.table().push(PushKind::kGradient, Step{1, 1, 1}, keys, &one);
  replica.fill(keys, &zero);
  replica.table().push(PushKind::kGradient, Step{1, 1, 2}, keys, &one);
  // The second gradient finds the first one's square.
  BOOST_TEST(testing::pulled(replica.table(), keys)[0] == -1 / std::sqrt(2.0f), boost::test_tools::tolerance(1e-5f));
}

BOOST_AUTO_TEST_SUITE_END()
