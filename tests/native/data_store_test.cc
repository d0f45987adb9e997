#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "data/store.h"
#include "data_reference.h"
#include "data_rows.h"
#include "testing.h"

using namespace flota;
using namespace flota::testing;

namespace {

const auto kLayout = layout_of({{FieldKind::kIds, 1}});
const auto kLists = layout_of({{FieldKind::kIds, 1}, {FieldKind::kFloatList}, {FieldKind::kIdList}});

void add(SampleStore& store, uint32_t begin, uint32_t end) {
  Samples samples(store.shared_layout());
  for (uint32_t i = begin; i < end; ++i) samples.append(row_of(store.layout(), numbered_sample(store.layout(), i)));
  store.append(samples);
}

SampleStore store_of(uint32_t count, const std::shared_ptr<const Layout>& layout = kLayout) {
  SampleStore store(layout);
  add(store, 0, count);
  return store;
}

// The samples' numbers, as they are read; each sample is seen to be whole.
std::vector<uint32_t> numbers_of(const SampleStore& store) {
  const std::vector<const std::byte*> rows = store.rows(0, store.size());
  const std::vector<Column> columns = gather(store.layout(), rows);
  std::vector<uint32_t> numbers;
  for (size_t i = 0; i < store.size(); ++i) {
    const SampleValues sample = sample_of(columns, i);
    const auto number = static_cast<uint32_t>(sample[0].ids[0]);
    if (row_of(store.layout(), sample) != row_of(store.layout(), numbered_sample(store.layout(), number))) {
      BOOST_TEST(false, "sample " << number << " is not whole");
    }
    numbers.push_back(number);
  }
  return numbers;
}

std::vector<uint32_t> counted(uint32_t count) {
  std::vector<uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0u);
  return numbers;
}

std::vector<uint32_t> sorted(std::vector<uint32_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// How far counts are from even, in standard deviations of chi-square.
double unevenness(const std::vector<double>& counts, double freedom) {
  const double expected = std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
  double chi_square = 0;
  for (double count : counts) chi_square += (count - expected) * (count - expected) / expected;
  return (chi_square - freedom) / std::sqrt(2 * freedom);
}

// The same, of where each of `size` things goes under orders made by make(seed).
template <class Make>
double unevenness_of_places(size_t size, size_t orders, Make make) {
  std::vector<double> counts(size * size);
  for (uint64_t seed = 0; seed < orders; ++seed) {
    const auto order = make(seed);
    for (size_t i = 0; i < size; ++i) ++counts[i * size + order[i]];
  }
  return unevenness(counts, static_cast<double>((size - 1) * (size - 1)));
}

std::vector<uint64_t> order_by(const Permutation& permutation, uint64_t size) {
  std::vector<uint64_t> order(size);
  for (uint64_t i = 0; i < size; ++i) order[i] = permutation(i);
  return order;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(data_store)

BOOST_AUTO_TEST_CASE(samples_are_read_as_they_were_appended) {
  for (const auto& layout : {kLayout, kLists}) {
    SampleStore store(layout);
    // Blocks hold 4,096.
    for (uint32_t end : {0u, 1u, 4095u, 4096u, 4097u, 12'300u}) {
      add(store, static_cast<uint32_t>(store.size()), end);
      BOOST_TEST(store.size() == end);
      BOOST_TEST((numbers_of(store) == counted(end)));
    }
    BOOST_TEST(store.bytes() >= store.size() * layout->fixed_bytes());
    store.clear();
    BOOST_TEST(store.size() == 0u);
    BOOST_TEST(store.bytes() == 0u);
    add(store, 0, 3);
    BOOST_TEST((numbers_of(store) == counted(3)));
  }
}

BOOST_AUTO_TEST_CASE(a_shuffle_is_a_function_of_the_order_before_and_the_seed) {
  SampleStore first = store_of(10'000, kLists);
  SampleStore second = store_of(10'000, kLists);
  first.shuffle(1);
  second.shuffle(1);
  const std::vector<uint32_t> once = numbers_of(first);
  BOOST_TEST((once == numbers_of(second)));
  BOOST_TEST((once != counted(10'000)));
  BOOST_TEST((sorted(once) == counted(10'000)));
  first.shuffle(1);
  BOOST_TEST((numbers_of(first) != once));
  second.shuffle(2);
  BOOST_TEST((numbers_of(second) != numbers_of(first)));
}

// Jobs that go on after a crash shuffle again and must meet the same order.
BOOST_AUTO_TEST_CASE(the_order_of_a_shuffle_never_changes) {
  SampleStore store = store_of(8);
  store.shuffle(7);
  BOOST_TEST(numbers_of(store) == (std::vector<uint32_t>{0, 5, 1, 4, 7, 2, 6, 3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(shuffles_of_few_samples_are_shuffles) {
  for (uint32_t count : {0u, 1u, 2u, 3u}) {
    SampleStore store = store_of(count);
    std::set<std::vector<uint32_t>> orders;
    for (uint64_t seed = 0; seed < 200; ++seed) {
      store.shuffle(seed);
      orders.insert(numbers_of(store));
      BOOST_TEST((sorted(numbers_of(store)) == counted(count)));
    }
    BOOST_TEST(orders.size() == (count < 2 ? 1u : count == 2 ? 2u : 6u));
  }
}

BOOST_AUTO_TEST_CASE(a_shuffle_leads_each_sample_to_each_place_equally_often) {
  for (uint32_t count : {2u, 7u, 30u}) {
    const double uneven = unevenness_of_places(count, 20'000, [&](uint64_t seed) {
      SampleStore store(kLayout);
      add(store, 0, count);
      store.shuffle(seed);
      return numbers_of(store);
    });
    BOOST_TEST(std::abs(uneven) < 6, count << " samples: " << uneven);
  }
}

BOOST_AUTO_TEST_CASE(samples_that_come_after_a_shuffle_are_read_last) {
  SampleStore store = store_of(100, kLists);
  store.shuffle(3);
  std::vector<uint32_t> expected = numbers_of(store);
  add(store, 100, 110);
  store.append(row_of(*kLists, numbered_sample(*kLists, 110)));
  for (uint32_t i = 100; i <= 110; ++i) expected.push_back(i);
  BOOST_TEST((numbers_of(store) == expected));
}

BOOST_AUTO_TEST_CASE(any_part_of_the_order_can_be_read) {
  SampleStore store = store_of(5000, kLists);
  store.shuffle(4);
  const std::vector<const std::byte*> all = store.rows(0, 5000);
  const std::vector<const std::byte*> part = store.rows(4000, 500);
  BOOST_TEST((std::vector(all.begin() + 4000, all.begin() + 4500) == part));
  BOOST_TEST(store.rows(5000, 0).empty());
}

BOOST_AUTO_TEST_CASE(samples_of_another_layout_are_refused) {
  SampleStore store = store_of(3, kLists);
  BOOST_CHECK_THROW(store.append(Samples(kLayout)), std::invalid_argument);
  Samples equal(layout_of({{FieldKind::kIds, 1}, {FieldKind::kFloatList}, {FieldKind::kIdList}}));
  equal.append(row_of(*kLists, numbered_sample(*kLists, 3)));
  store.append(equal);
  BOOST_TEST((numbers_of(store) == counted(4)));
}

BOOST_AUTO_TEST_CASE(a_store_that_was_moved_is_empty_and_usable) {
  SampleStore store = store_of(5, kLists);
  store.shuffle(1);
  const std::vector<uint32_t> order = numbers_of(store);
  SampleStore moved(std::move(store));
  BOOST_TEST((numbers_of(moved) == order));
  BOOST_TEST(store.size() == 0u);
  BOOST_TEST(store.rows(0, 0).empty());
  add(store, 0, 2);
  BOOST_TEST((numbers_of(store) == counted(2)));
  store = std::move(moved);
  BOOST_TEST((numbers_of(store) == order));
  BOOST_TEST(moved.size() == 0u);
  add(moved, 0, 1);
  BOOST_TEST((numbers_of(moved) == counted(1)));
  SampleStore& same = store;
  store = std::move(same);
  BOOST_TEST((numbers_of(store) == order));
}

BOOST_AUTO_TEST_CASE(blocks_are_taken_in_the_order_of_appending) {
  SampleStore store = store_of(10'000, kLists);
  store.shuffle(1);
  uint32_t number = 0;
  while (const auto block = store.take_block()) {
    for (size_t i = 0; i < block->size(); ++i, ++number) {
      BOOST_TEST((bytes_of(block->row(i)) == row_of(*kLists, numbered_sample(*kLists, number))));
    }
  }
  BOOST_TEST(number == 10'000u);
  BOOST_TEST((store.take_block() == nullptr));
  store.clear();
  add(store, 0, 2);
  BOOST_TEST((numbers_of(store) == counted(2)));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(data_permutation)

BOOST_AUTO_TEST_CASE(every_number_has_one_place) {
  std::vector<uint64_t> sizes(300);
  std::iota(sizes.begin(), sizes.end(), 1u);
  for (uint64_t size : {1023u, 1024u, 1025u, 4096u, 4097u, 65'536u, 65'537u, 100'003u}) sizes.push_back(size);
  for (uint64_t size : sizes) {
    for (uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      const Permutation permutation(seed, size);
      std::vector<bool> taken(size);
      for (uint64_t i = 0; i < size; ++i) {
        const uint64_t place = permutation(i);
        if (place >= size || taken[place]) BOOST_TEST(false, "size " << size << ", number " << i);
        taken[place] = true;
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(places_of_very_many_numbers_are_below_their_size_and_differ) {
  for (uint64_t size :
       {uint64_t{1} << 32, (uint64_t{1} << 40) + 1, (uint64_t{1} << 62) + 1, (uint64_t{1} << 63) + 5, ~uint64_t{0}}) {
    const Permutation permutation(5, size);
    std::set<uint64_t> places;
    for (uint64_t i = 0; i < 5000; ++i) {
      places.insert(permutation(i));
      places.insert(permutation(size - 1 - i));
    }
    BOOST_TEST(places.size() == 10'000u);
    BOOST_TEST(*places.rbegin() < size);
    // Neither end is preferred: the largest of 10,000 is near the size, and half of them are below its half.
    BOOST_TEST(*places.rbegin() > size / 1000 * 995);
    const auto lower = std::distance(places.begin(), places.lower_bound(size / 2));
    BOOST_TEST(std::abs(static_cast<double>(lower) - 5000) < 300);
  }
}

// Workers of different builds must agree on places.
BOOST_AUTO_TEST_CASE(places_never_change) {
  BOOST_TEST(order_by(Permutation(7, 10), 10) == (std::vector<uint64_t>{0, 2, 3, 1, 5, 7, 4, 8, 9, 6}),
             boost::test_tools::per_element());
  const std::vector<uint64_t> first = order_by(Permutation(7, 40), 10);
  BOOST_TEST(first == (std::vector<uint64_t>{16, 0, 24, 9, 22, 38, 10, 4, 26, 21}), boost::test_tools::per_element());
  BOOST_TEST(Permutation(1, 1'000'000'007)(123'456'789) == 208309384u);
}

BOOST_AUTO_TEST_CASE(each_number_goes_to_each_place_equally_often) {
  for (uint64_t size : {2u, 3u, 4u, 5u, 9u, 16u, 17u, 60u}) {
    const double uneven =
        unevenness_of_places(size, 60'000, [&](uint64_t seed) { return order_by(Permutation(seed, size), size); });
    BOOST_TEST(std::abs(uneven) < 6, size << " numbers: " << uneven);
  }
}

// Epochs have neighbouring seeds, and files have neighbouring samples that are alike.
BOOST_AUTO_TEST_CASE(neighbouring_seeds_and_numbers_have_nothing_in_common) {
  constexpr uint64_t kSize = 50'000;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const Permutation one(seed, kSize);
    const Permutation other(seed + 1, kSize);
    std::vector<double> between_seeds(64);
    std::vector<double> between_numbers(64);
    size_t same = 0;
    for (uint64_t i = 0; i + 1 < kSize; ++i) {
      same += one(i) == other(i);
      ++between_seeds[(one(i) + kSize - other(i)) % kSize * 64 / kSize];
      ++between_numbers[(one(i + 1) + kSize - one(i)) % kSize * 64 / kSize];
    }
    BOOST_TEST(same < 12u);
    BOOST_TEST(std::abs(unevenness(between_seeds, 63)) < 6);
    BOOST_TEST(std::abs(unevenness(between_numbers, 63)) < 6);
  }
}

BOOST_AUTO_TEST_SUITE_END()
