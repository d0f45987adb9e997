#pragma once

#include <memory>
#include <random>
#include <vector>

#include "data/layout.h"
#include "data_reference.h"
#include "testing.h"

// Layouts and samples for the tests of data/.
namespace flota::testing {

inline std::shared_ptr<const Layout> layout_of(std::vector<Field> fields) {
  return std::make_shared<const Layout>(value_of(Layout::make(std::move(fields))));
}

inline std::vector<std::shared_ptr<const Layout>> layouts_of_every_kind() {
  constexpr auto kFloats = FieldKind::kFloats;
  constexpr auto kIds = FieldKind::kIds;
  constexpr auto kFloatList = FieldKind::kFloatList;
  constexpr auto kIdList = FieldKind::kIdList;
  return {layout_of({{kFloats, 1}}),
          layout_of({{kIds, 3}}),
          layout_of({{kFloatList}}),
          layout_of({{kIdList}}),
          layout_of({{kFloats, 3}, {kIds, 2}, {kFloats, 2}, {kIds, 1}}),
          layout_of({{kFloatList}, {kFloats, 1}, {kIdList}, {kIds, 1}, {kFloatList}, {kIdList}})};
}

inline SampleValues random_sample(const Layout& layout, std::mt19937_64& random) {
  SampleValues sample = zero_sample(layout);
  for (size_t i = 0; i < sample.size(); ++i) {
    const Field& field = layout.fields()[i];
    if (field.is_list())
      (has_floats(field) ? sample[i].floats.resize(random() % 6) : sample[i].ids.resize(random() % 6));
    for (float& value : sample[i].floats) value = static_cast<float>(static_cast<int64_t>(random())) * 0x1p-40f;
    for (int64_t& value : sample[i].ids) value = static_cast<int64_t>(random());
  }
  return sample;
}

// A sample that is recognised by its number, in each value of it.
inline SampleValues numbered_sample(const Layout& layout, uint32_t number) {
  SampleValues sample = zero_sample(layout);
  for (size_t i = 0; i < sample.size(); ++i) {
    const Field& field = layout.fields()[i];
    if (field.is_list()) (has_floats(field) ? sample[i].floats.resize(number % 4) : sample[i].ids.resize(number % 4));
    for (float& value : sample[i].floats) value = static_cast<float>(number);
    for (int64_t& value : sample[i].ids) value = number;
  }
  return sample;
}

}  // namespace flota::testing
