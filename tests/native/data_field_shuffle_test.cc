// Parts of samples that change places.
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <set>

#include "data/field_shuffle.h"
#include "testing.h"

namespace flota {
namespace {

constexpr size_t kSamples = 1000;

// Sample i: the ids i and 2i, the float i, and i % 4 times i in a list.
std::shared_ptr<const Layout> layout() {
  return std::make_shared<const Layout>(testing::value_of(Layout::make(
      {{FieldKind::kIds, 2}, {FieldKind::kFloats, 1}, {FieldKind::kIdList, 1}, {FieldKind::kFloatList, 1}})));
}

SampleStore samples() {
  auto made = layout();
  SampleStore store(made);
  for (size_t i = 0; i < kSamples; ++i) {
    std::vector<std::byte> row(made->fixed_bytes());
    const int64_t ids[2] = {static_cast<int64_t>(i), static_cast<int64_t>(2 * i)};
    const auto number = static_cast<float>(i);
    const auto count = static_cast<uint32_t>(i % 4);
    const uint32_t none = 0;
    std::memcpy(row.data() + made->offset(0), ids, sizeof ids);
    std::memcpy(row.data() + made->offset(1), &number, sizeof number);
    std::memcpy(row.data() + made->offset(2), &count, sizeof count);
    std::memcpy(row.data() + made->offset(3), &none, sizeof none);
    for (uint32_t n = 0; n < count; ++n) {
      const auto* value = reinterpret_cast<const std::byte*>(&ids[0]);
      row.insert(row.end(), value, value + sizeof ids[0]);
    }
    store.append(row);
  }
  return store;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(data_field_shuffle)

BOOST_AUTO_TEST_CASE(chosen_parts_go_together_to_other_samples_and_the_rest_stays) {
  const SampleStore store = samples();
  const Part parts[] = {{0, 1, 1}, {2, 0, 0}};
  const SampleStore mixed = shuffle_fields(store, parts, 7);
  BOOST_REQUIRE(mixed.size() == kSamples);
  const auto rows = mixed.rows(0, kSamples);
  const std::vector<Column> columns = gather(mixed.layout(), rows);
  const auto* ids = reinterpret_cast<const int64_t*>(columns[0].values.get());
  const auto* numbers = reinterpret_cast<const float*>(columns[1].values.get());
  const auto* list = reinterpret_cast<const int64_t*>(columns[2].values.get());
  std::set<int64_t> donors;
  size_t moved = 0;
  for (size_t i = 0; i < kSamples; ++i) {
    BOOST_REQUIRE(ids[2 * i] == static_cast<int64_t>(i));
    BOOST_REQUIRE(numbers[i] == static_cast<float>(i));
    const int64_t donor = ids[2 * i + 1] / 2;
    donors.insert(donor);
    moved += donor != static_cast<int64_t>(i);
    BOOST_REQUIRE(columns[2].offsets[i + 1] - columns[2].offsets[i] == donor % 4);
    for (int64_t n = columns[2].offsets[i]; n < columns[2].offsets[i + 1]; ++n) BOOST_REQUIRE(list[n] == donor);
  }
  BOOST_TEST(donors.size() == kSamples);
  BOOST_TEST(moved > kSamples * 9 / 10);
}

BOOST_AUTO_TEST_CASE(nothing_chosen_changes_nothing) {
  const SampleStore store = samples();
  const SampleStore same = shuffle_fields(store, {}, 7);
  const auto before = store.rows(0, kSamples);
  const auto after = same.rows(0, kSamples);
  for (size_t i = 0; i < kSamples; ++i) {
    const size_t bytes = store.layout().fixed_bytes() + (i % 4) * sizeof(int64_t);
    BOOST_REQUIRE(std::memcmp(before[i], after[i], bytes) == 0);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace flota
