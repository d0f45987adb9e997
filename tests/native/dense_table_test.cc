#include "table/dense_table.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <vector>

#include "common/half.h"
#include "testing.h"

using namespace flota;
using namespace flota::testing;

namespace {

constexpr RuleKind kCuttableRules[] = {RuleKind::kSgd,          RuleKind::kMomentum, RuleKind::kAdagrad,
                                       RuleKind::kRmsProp,      RuleKind::kAdam,     RuleKind::kAdamW,
                                       RuleKind::kAdamax,       RuleKind::kFtrl,     RuleKind::kPaddleRmsProp,
                                       RuleKind::kPaddleAdamax, RuleKind::kLazyAdam};

// The blocks that begin at `cuts` (the first must be 0) and cover `size` elements.
TableSpec cut(TableSpec spec, const std::vector<uint64_t>& cuts) {
  spec.blocks.clear();
  for (size_t i = 0; i < cuts.size(); ++i) {
    const uint64_t end = i + 1 < cuts.size() ? cuts[i + 1] : spec.size();
    spec.blocks.push_back({static_cast<uint32_t>(i), cuts[i], end - cuts[i]});
  }
  return spec;
}

std::vector<float> random_values(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int64_t>(random() % 2001) - 1000) / 512;
  return values;
}

std::vector<float> pulled(const DenseTable& table) {
  std::vector<float> all;
  for (size_t place = 0; place < table.block_count(); ++place) {
    std::vector<float> out(table.block(place).length);
    table.pull(place, out);
    all.insert(all.end(), out.begin(), out.end());
  }
  return all;
}

void push(DenseTable& table, PushKind kind, const Step& step, std::span<const float> values) {
  for (size_t place = 0; place < table.block_count(); ++place) {
    const BlockSpec& block = table.block(place);
    table.push(kind, step, place, values.subspan(block.offset, block.length));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dense_table, *boost::unit_test::timeout(60))

BOOST_AUTO_TEST_CASE(a_parameter_is_the_same_however_it_is_cut) {
  constexpr uint64_t kSize = 1003;
  const std::vector<std::vector<uint64_t>> cuttings = {
      {0}, {0, 1}, {0, 500}, {0, 7, 8, 9, 501, 1002}, {0, 16, 32, 999}};
  for (Storage storage : kStorages) {
    for (RuleKind rule : kCuttableRules) {
      BOOST_TEST_CONTEXT(to_string(storage) << ", " << to_string(rule)) {
        std::vector<uint32_t> expected;
        for (const auto& cuts : cuttings) {
          const TableSpec spec = cut(dense_spec(kSize, rule, storage), cuts);
          BOOST_TEST_REQUIRE(validate(spec).has_value());
          DenseTable table(spec);
          for (uint64_t step = 1; step <= 4; ++step) {
            push(table, PushKind::kGradient, {0.05f, 0.5f, step}, random_values(kSize, step));
          }
          push(table, PushKind::kDelta, {0.05f, 0.5f, 5}, random_values(kSize, 9));
          const auto bits = bits_of(pulled(table));
          if (expected.empty()) expected = bits;
          BOOST_TEST((bits == expected));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(first_values_follow_from_seed_and_place) {
  TableSpec spec = dense_spec(100);
  const DenseTable table(spec);
  // A server that holds the second half only.
  spec.blocks = {{3, 50, 50}};
  const DenseTable half(spec);
  const auto all = pulled(table);
  BOOST_TEST((pulled(half) == std::vector<float>(all.begin() + 50, all.end())));
  spec.seed += 1;
  BOOST_TEST((pulled(DenseTable(spec)) != pulled(half)));
}

BOOST_AUTO_TEST_CASE(the_storage_rounds_first_values) {
  const auto exact = pulled(DenseTable(dense_spec(77)));
  auto halves = exact;
  auto brains = exact;
  for (float& value : halves) value = float16_to_float32(float32_to_float16(value));
  for (float& value : brains) value = bfloat16_to_float32(float32_to_bfloat16(value));
  BOOST_TEST((pulled(DenseTable(dense_spec(77, RuleKind::kSgd, Storage::kFloat16))) == halves));
  BOOST_TEST((pulled(DenseTable(dense_spec(77, RuleKind::kSgd, Storage::kBFloat16))) == brains));
}

BOOST_AUTO_TEST_CASE(blocks_are_found_by_id) {
  TableSpec spec = dense_spec(1000);
  spec.blocks = {{2, 0, 10}, {5, 100, 20}, {9, 900, 100}};
  const DenseTable table(spec);
  BOOST_TEST(table.block_count() == 3u);
  BOOST_TEST(table.find_block(2) == 0);
  BOOST_TEST(table.find_block(5) == 1);
  BOOST_TEST(table.find_block(9) == 2);
  for (uint32_t id : {0u, 1u, 3u, 6u, 10u, UINT32_MAX}) BOOST_TEST(table.find_block(id) == -1);
  BOOST_TEST(table.elements() == 130u);
}

BOOST_AUTO_TEST_CASE(a_server_without_blocks_of_a_parameter_has_an_empty_table) {
  TableSpec spec = dense_spec(10);
  spec.blocks.clear();
  const DenseTable table(spec);
  BOOST_TEST(table.block_count() == 0u);
  BOOST_TEST(table.elements() == 0u);
  BOOST_TEST(table.find_block(0) == -1);
}

BOOST_AUTO_TEST_CASE(each_kind_of_push_does_what_it_says) {
  TableSpec spec = dense_spec(4);
  spec.init = {InitKind::kConstant, 100};
  const std::vector<float> values = {1, 2, 3, 4};
  for (Storage storage : kStorages) {
    spec.storage = storage;
    DenseTable table(spec);
    table.push(PushKind::kGradient, {2, 4, 7}, 0, values);
    BOOST_TEST((pulled(table) == std::vector<float>{92, 84, 76, 68}));
    table.push(PushKind::kDelta, {9, 0.5, 8}, 0, values);
    BOOST_TEST((pulled(table) == std::vector<float>{92.5, 85, 77.5, 70}));
    table.push(PushKind::kAssign, {9, 3, 9}, 0, values);
    BOOST_TEST((pulled(table) == values));
    const RowPage page = table.export_block(0);
    BOOST_TEST(page.updates[0] == 1u);  // what a rule counts: gradients
    BOOST_TEST(page.last_seen[0] == 9u);
  }
}

BOOST_AUTO_TEST_CASE(import_of_an_export_gives_the_same_block_bit_for_bit) {
  for (Storage storage : kStorages) {
    for (RuleKind rule : {RuleKind::kSgd, RuleKind::kAdam, RuleKind::kLamb, RuleKind::kFtrl}) {
      BOOST_TEST_CONTEXT(to_string(storage) << ", " << to_string(rule)) {
        const TableSpec spec = dense_spec(101, rule, storage);
        DenseTable table(spec);
        for (uint64_t step = 1; step <= 3; ++step) {
          push(table, PushKind::kGradient, {0.1f, 1, step << 40}, random_values(101, step));
        }
        DenseTable copy(spec);
        copy.import_block(0, table.export_block(0));
        for (int round = 0; round < 2; ++round) {
          const RowPage there = table.export_block(0);
          const RowPage here = copy.export_block(0);
          BOOST_TEST((there.keys == here.keys));
          BOOST_TEST((there.updates == here.updates));
          BOOST_TEST((there.last_seen == here.last_seen));
          BOOST_TEST((bits_of(there.weights) == bits_of(here.weights)));
          BOOST_TEST((bits_of(there.state) == bits_of(here.state)));
          // And it goes on in the same way.
          push(table, PushKind::kGradient, {0.1f, 1, 9}, random_values(101, 9));
          push(copy, PushKind::kGradient, {0.1f, 1, 9}, random_values(101, 9));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(no_update_is_lost_and_no_block_is_seen_half_updated) {
  constexpr size_t kSize = 3000, kPushers = 3, kRounds = 200;
  for (Storage storage : {Storage::kFloat32, Storage::kFloat16}) {
    TableSpec spec = cut(dense_spec(kSize, RuleKind::kSgd, storage), {0, 1024, 2048});
    spec.init = {InitKind::kConstant, 0};
    DenseTable table(spec);
    std::atomic<size_t> pushing{kPushers};
    std::atomic<size_t> torn{0};
    auto all_equal = [](std::span<const float> values) {
      return std::all_of(values.begin(), values.end(), [&](float value) { return value == values[0]; });
    };
    in_threads(kPushers + 2, [&](size_t thread) {
      if (thread < kPushers) {
        const std::vector<float> gradients(kSize, -1);
        for (size_t round = 0; round < kRounds; ++round) push(table, PushKind::kGradient, {1, 1, round}, gradients);
        pushing.fetch_sub(1);
        return;
      }
      std::vector<float> out;
      do {
        for (size_t place = 0; place < table.block_count(); ++place) {
          if (thread == kPushers) {
            out.resize(table.block(place).length);
            table.pull(place, out);
            torn += !all_equal(out);
          } else {
            const RowPage page = table.export_block(place);
            torn += !all_equal(page.weights) || page.weights[0] != static_cast<float>(page.updates[0]);
          }
        }
      } while (pushing.load() > 0);
    });
    BOOST_TEST(torn.load() == 0u);
    BOOST_TEST((pulled(table) == std::vector<float>(kSize, float{kPushers * kRounds})));
  }
}

BOOST_AUTO_TEST_CASE(memory_is_counted) {
  const DenseTable sgd(dense_spec(1'000'000));
  BOOST_TEST(sgd.bytes() >= 4'000'000u);
  BOOST_TEST(sgd.bytes() < 7'000'000u);  // on huge pages
  const DenseTable adam(dense_spec(1'000'000, RuleKind::kAdam, Storage::kFloat16));
  BOOST_TEST(adam.bytes() >= 10'000'000u);
  BOOST_TEST(adam.bytes() < 15'000'000u);
}

BOOST_AUTO_TEST_SUITE_END()
