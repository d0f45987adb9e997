#include <cstring>
#include <limits>
#include <random>

#include "data/samples.h"
#include "data_reference.h"
#include "data_rows.h"
#include "testing.h"

using namespace flota;
using namespace flota::testing;

BOOST_AUTO_TEST_SUITE(data_samples)

BOOST_AUTO_TEST_CASE(a_row_holds_ids_then_floats_then_lengths) {
  const auto layout =
      layout_of({{FieldKind::kFloats, 3}, {FieldKind::kIdList}, {FieldKind::kIds, 2}, {FieldKind::kFloatList}});
  BOOST_TEST(layout->offset(2) == 0u);
  BOOST_TEST(layout->offset(0) == 16u);
  BOOST_TEST(layout->offset(1) == 28u);
  BOOST_TEST(layout->offset(3) == 32u);
  BOOST_TEST(layout->fixed_bytes() == 40u);
  BOOST_TEST((std::vector(layout->lists().begin(), layout->lists().end()) == std::vector<uint32_t>{1, 3}));
}

BOOST_AUTO_TEST_CASE(layouts_that_cannot_be_are_refused) {
  BOOST_TEST(!Layout::make({}).has_value());
  BOOST_TEST(!Layout::make(std::vector<Field>(Layout::kMaxFields + 1)).has_value());
  BOOST_TEST(!Layout::make({{FieldKind::kIds, 0}}).has_value());
  BOOST_TEST(!Layout::make({{FieldKind::kFloats, Layout::kMaxWidth + 1}}).has_value());
  BOOST_TEST(Layout::make({{FieldKind::kFloats, Layout::kMaxWidth}}).has_value());
  BOOST_TEST(Layout::make(std::vector<Field>(Layout::kMaxFields)).has_value());
}

BOOST_AUTO_TEST_CASE(parts_tile_a_sample_if_each_value_is_in_one_of_them) {
  const auto layout = layout_of({{FieldKind::kFloats, 3}, {FieldKind::kIdList}});
  BOOST_TEST(layout->is_tiled_by({{0, 0, 3}, {1}}));
  BOOST_TEST(layout->is_tiled_by({{1}, {0, 2, 1}, {0, 0, 2}}));
  BOOST_TEST(!layout->is_tiled_by({}));
  BOOST_TEST(!layout->is_tiled_by({{0, 0, 3}}));
  BOOST_TEST(!layout->is_tiled_by({{1}}));
  BOOST_TEST(!layout->is_tiled_by({{0, 0, 2}, {1}}));
  BOOST_TEST(!layout->is_tiled_by({{0, 1, 2}, {1}}));
  BOOST_TEST(!layout->is_tiled_by({{0, 0, 2}, {0, 1, 2}, {1}}));
  BOOST_TEST(!layout->is_tiled_by({{0, 0, 4}, {1}}));
  BOOST_TEST(!layout->is_tiled_by({{0, 0, 3}, {1}, {1}}));
  BOOST_TEST(!layout->is_tiled_by({{0, 0, 3}, {1}, {2}}));
  BOOST_TEST(!layout->is_tiled_by({{0, 0, 3}, {1, 0, 0xffffffff}}));
}

BOOST_AUTO_TEST_CASE(row_bytes_believes_no_length_beyond_the_bytes) {
  const auto layout = layout_of({{FieldKind::kIds, 1}, {FieldKind::kFloatList}, {FieldKind::kIdList}});
  std::vector<std::byte> row = row_of(*layout, {{{}, {7}}, {{1, 2, 3}, {}}, {{}, {4, 5}}});
  BOOST_TEST(row.size() == 16u + 16u + 16u);
  BOOST_TEST(layout->row_bytes(row) == row.size());
  for (size_t size = 0; size < row.size(); ++size) BOOST_TEST(layout->row_bytes(std::span(row).first(size)) == 0u);
  row.resize(row.size() + 8);
  BOOST_TEST(layout->row_bytes(row) == row.size() - 8);
  const uint32_t most = UINT32_MAX;
  for (size_t field : {1, 2}) std::memcpy(row.data() + layout->offset(field), &most, sizeof most);
  BOOST_TEST(layout->row_bytes(row) == 0u);
}

BOOST_AUTO_TEST_CASE(samples_of_every_kind_of_field_come_back_from_a_batch) {
  std::mt19937_64 random(2);
  for (const auto& layout : layouts_of_every_kind()) {
    Samples samples(layout);
    std::vector<SampleValues> written;
    for (int i = 0; i < 300; ++i) {
      written.push_back(random_sample(*layout, random));
      samples.append(row_of(*layout, written.back()));
    }
    BOOST_TEST(samples.size() == written.size());
    std::vector<const std::byte*> rows;
    std::vector<size_t> order;
    for (int i = 0; i < 500; ++i) {
      order.push_back(random() % written.size());
      rows.push_back(samples.row(order.back()).data());
    }
    const std::vector<Column> columns = gather(*layout, rows);
    size_t wrong = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      wrong += row_of(*layout, sample_of(columns, i)) != row_of(*layout, written[order[i]]);
      wrong += bytes_of(samples.row(order[i])) != row_of(*layout, written[order[i]]);
    }
    BOOST_TEST(wrong == 0u);
  }
}

BOOST_AUTO_TEST_CASE(a_batch_without_samples_has_its_columns) {
  for (const auto& layout : layouts_of_every_kind()) {
    const std::vector<Column> columns = gather(*layout, {});
    BOOST_TEST(columns.size() == layout->fields().size());
    for (const Column& column : columns) {
      BOOST_TEST(column.samples == 0u);
      BOOST_TEST(column.count == 0u);
      if (column.field.is_list()) BOOST_TEST(column.offsets[0] == 0);
    }
  }
}

// Rows go to other processes as they are: what was in memory before must not go with them.
BOOST_AUTO_TEST_CASE(nothing_uninitialised_is_left_between_values) {
  const auto layout =
      layout_of({{FieldKind::kFloats, 1}, {FieldKind::kFloatList}, {FieldKind::kFloatList}, {FieldKind::kIdList}});
  const SampleValues sample = {{{1}, {}}, {{2}, {}}, {{3, 4, 5}, {}}, {{}, {6}}};
  const std::vector<std::byte> expected = row_of(*layout, sample);
  std::vector<std::byte> dirty = expected;
  // The four bytes behind each odd number of floats.
  for (size_t at : {20, 36}) std::memset(dirty.data() + at, 0xee, 4);
  const auto odd = layout_of({{FieldKind::kIds, 1}, {FieldKind::kFloats, 1}});
  const std::vector<std::byte> odd_row(16, std::byte{0xee});
  Samples samples(layout);
  Samples odd_samples(odd);
  for (int i = 0; i < 1000; ++i) {
    samples.append(dirty);
    odd_samples.append(odd_row);
  }
  BOOST_TEST((bytes_of(samples.row(999)) == expected));
  BOOST_TEST(hex(odd_samples.row(999)) == "eeeeeeeeeeeeeeeeeeeeeeee00000000");
}

BOOST_AUTO_TEST_CASE(a_row_that_is_not_closed_leaves_nothing) {
  const auto layout = layout_of({{FieldKind::kIds, 1}, {FieldKind::kIdList}});
  Samples samples(layout);
  std::memset(samples.open(100'000), 0xee, layout->fixed_bytes() + 100'000);
  samples.append(row_of(*layout, {{{}, {1}}, {{}, {2, 3}}}));
  BOOST_TEST(samples.size() == 1u);
  BOOST_TEST((bytes_of(samples.row(0)) == row_of(*layout, {{{}, {1}}, {{}, {2, 3}}})));
}

BOOST_AUTO_TEST_CASE(samples_that_were_moved_are_empty) {
  const auto layout = layout_of({{FieldKind::kIdList}});
  Samples samples(layout);
  samples.append(row_of(*layout, {{{}, {1}}}));
  const Samples moved(std::move(samples));
  BOOST_TEST(moved.size() == 1u);
  BOOST_TEST(samples.size() == 0u);
  samples.append(row_of(*layout, {{{}, {2, 3}}}));
  BOOST_TEST((bytes_of(samples.row(0)) == row_of(*layout, {{{}, {2, 3}}})));
}

// Places of rows are 32 bits of eight bytes each. The pages are never written to; where even so the system has not as
// many, that is the exception.
BOOST_AUTO_TEST_CASE(rows_beyond_32_gib_are_refused_and_never_wrap) {
  const auto layout = layout_of({{FieldKind::kIdList}});
  Samples samples(layout);
  auto add_a_gib = [&] {
    samples.open(size_t{1} << 30);
    samples.close(size_t{1} << 30);
  };
  auto fill = [&] {
    for (int i = 0; i < 34; ++i) add_a_gib();
  };
  BOOST_CHECK_THROW(fill(), std::exception);
  BOOST_TEST(samples.size() <= 33u);
}

BOOST_AUTO_TEST_SUITE_END()
