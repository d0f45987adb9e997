#include "server/registry.h"

#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "testing.h"

using namespace flota;
using namespace flota::testing;

namespace {

TableSpec named(TableSpec spec, const std::string& name) {
  spec.name = name;
  return spec;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(registry, *boost::unit_test::timeout(60))

BOOST_AUTO_TEST_CASE(a_table_is_made_once_and_then_found) {
  Registry registry;
  bool created = false;
  auto table = value_of(registry.create(sparse_spec(4), &created));
  BOOST_TEST(created);
  auto again = value_of(registry.create(sparse_spec(4), &created));
  BOOST_TEST(!created);
  BOOST_TEST(table == again);
  BOOST_TEST(value_of(registry.find("rows")) == table);
  BOOST_TEST(value_of(registry.find(Registry::id_of("rows"))) == table);
  BOOST_TEST(registry.all().size() == 1u);
}

BOOST_AUTO_TEST_CASE(sparse_and_dense_tables_live_side_by_side) {
  Registry registry;
  bool created = false;
  auto sparse = value_of(registry.create(sparse_spec(4), &created));
  auto dense = value_of(registry.create(dense_spec(10), &created));
  BOOST_TEST((sparse->sparse && !sparse->dense));
  BOOST_TEST((dense->dense && !dense->sparse));
  BOOST_TEST(dense->rows() == 10u);
  BOOST_TEST(sparse->rows() == 0u);
}

BOOST_AUTO_TEST_CASE(a_table_with_other_settings_is_refused_naming_the_difference) {
  Registry registry;
  bool created = false;
  auto table = value_of(registry.create(sparse_spec(4), &created));
  TableSpec other = sparse_spec(8);
  other.seed = 9;
  auto refused = registry.create(other, &created);
  BOOST_TEST(code_of(refused) == ErrorCode::kTableMismatch);
  BOOST_TEST(!created);
  BOOST_TEST(contains(message_of(refused), "'rows'"));
  BOOST_TEST(contains(message_of(refused), "dim is 4 there and 8 here"));
  BOOST_TEST(contains(message_of(refused), "seed is 7 there and 9 here"));
  // The table is as it was.
  BOOST_TEST(value_of(registry.find("rows")) == table);
  BOOST_TEST(table->spec.dim == 4u);
}

BOOST_AUTO_TEST_CASE(every_setting_counts) {
  const TableSpec spec = dense_spec(100, RuleKind::kAdam);
  std::vector<TableSpec> others(7, spec);
  others[0].storage = Storage::kFloat16;
  others[1].allow_nonfinite = true;
  others[2].rule.beta1 = 0.8;
  others[3].init.b = 0.5;
  others[4].blocks = {{0, 0, 50}};
  others[5].rule.steps = StepSource::kPush;
  others[6].rule.amsgrad = true;
  Registry registry;
  bool created = false;
  value_of(registry.create(spec, &created));
  for (const TableSpec& other : others) {
    BOOST_TEST_REQUIRE(validate(other).has_value());
    BOOST_TEST(code_of(registry.create(other, &created)) == ErrorCode::kTableMismatch);
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_table_is_an_error_that_names_those_there_are) {
  Registry registry;
  BOOST_TEST(contains(message_of(registry.find("users")), "no table was created yet"));
  bool created = false;
  value_of(registry.create(named(sparse_spec(4), "items"), &created));
  auto missing = registry.find("users");
  BOOST_TEST(code_of(missing) == ErrorCode::kUnknownTable);
  BOOST_TEST(contains(message_of(missing), "'users'"));
  BOOST_TEST(contains(message_of(missing), "items"));
  BOOST_TEST(code_of(registry.find(uint64_t{42})) == ErrorCode::kUnknownTable);
}

BOOST_AUTO_TEST_CASE(tables_are_listed_by_name) {
  Registry registry;
  bool created = false;
  for (const char* name : {"b", "c", "a"}) value_of(registry.create(named(sparse_spec(1), name), &created));
  std::string names;
  for (const auto& table : registry.all()) names += table->spec.name;
  BOOST_TEST(names == "abc");
}

BOOST_AUTO_TEST_CASE(many_threads_that_create_a_table_get_the_same_one) {
  Registry registry;
  constexpr size_t kThreads = 4, kTables = 30;
  std::vector<std::vector<HostedTable*>> seen(kThreads);
  std::atomic<size_t> creations{0};
  std::atomic<size_t> errors{0};
  in_threads(kThreads, [&](size_t thread) {
    for (size_t i = 0; i < kTables; ++i) {
      bool created = false;
      auto table = registry.create(named(sparse_spec(4), "t" + std::to_string(i)), &created);
      errors += !table.has_value();
      creations += created;
      if (table) seen[thread].push_back(table->get());
      errors += !registry.find("t" + std::to_string(i)).has_value();
    }
  });
  BOOST_TEST(errors.load() == 0u);
  BOOST_TEST(creations.load() == kTables);
  for (size_t thread = 1; thread < kThreads; ++thread) BOOST_TEST((seen[thread] == seen[0]));
}

BOOST_AUTO_TEST_CASE(a_restored_parameter_waits_until_a_worker_says_how_it_is_cut) {
  Registry registry;
  WholeParameter whole;
  whole.spec = dense_spec(20, RuleKind::kAdam);
  whole.spec.blocks.clear();
  for (int i = 0; i < 20; ++i) whole.weights.push_back(static_cast<float>(i));
  for (int i = 0; i < 40; ++i) whole.state.push_back(static_cast<float>(100 + i));
  whole.updates = 3;
  whole.last_seen = 9;
  value_of(registry.keep(whole));
  BOOST_TEST(code_of(registry.keep(whole)) == ErrorCode::kInvalidArgument);
  BOOST_TEST((registry.kept() == std::vector<std::string>{"weights"}));
  BOOST_TEST(code_of(registry.find("weights")) == ErrorCode::kUnknownTable);

  // Another rule is not the same table, and changes nothing.
  bool created = false;
  auto refused = registry.create(dense_spec(20, RuleKind::kSgd), &created);
  BOOST_TEST(code_of(refused) == ErrorCode::kTableMismatch);
  BOOST_TEST(contains(message_of(refused), "was restored with other settings: rule is Adam there and SGD here"));

  TableSpec cut = dense_spec(20, RuleKind::kAdam);
  cut.rule.lr = 0.5;
  cut.blocks = {{0, 0, 4}, {2, 16, 4}};
  auto table = value_of(registry.create(cut, &created));
  BOOST_TEST(created);
  BOOST_TEST(table->restored);
  BOOST_TEST(table->version() > 0u);
  BOOST_TEST(registry.kept().empty());
  const RowPage page = table->dense->export_block(1);
  BOOST_TEST((page.weights == std::vector<float>{16, 17, 18, 19}));
  BOOST_TEST((page.state == std::vector<float>{116, 117, 118, 119, 136, 137, 138, 139}));
  BOOST_TEST(page.updates[0] == 3u);
  BOOST_TEST(page.last_seen[0] == 9u);
}

BOOST_AUTO_TEST_SUITE_END()
