#include "common/spec.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <string>

using namespace flota;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What validate() says, or "" when it is content.
template <class Spec>
std::string complaint(const Spec& spec) {
  const Result<void> result = validate(spec);
  if (result) return "";
  BOOST_TEST(static_cast<uint32_t>(result.error().code) == static_cast<uint32_t>(ErrorCode::kInvalidArgument));
  return result.error().message;
}

TableSpec sparse() {
  TableSpec spec;
  spec.name = "users";
  spec.kind = TableKind::kSparse;
  spec.dim = 16;
  return spec;
}

TableSpec dense() {
  TableSpec spec;
  spec.name = "tower.0/weight";
  spec.kind = TableKind::kDense;
  spec.shape = {4, 25};
  spec.blocks = {{0, 0, 40}, {2, 60, 40}};
  return spec;
}

TableSpec named(std::string name) {
  TableSpec spec = sparse();
  spec.name = std::move(name);
  return spec;
}

TableSpec with_blocks(std::vector<BlockSpec> blocks) {
  TableSpec spec = dense();
  spec.blocks = std::move(blocks);
  return spec;
}

const RuleSpec kAdam = {.kind = RuleKind::kAdam, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};

RuleSpec adam_with(double RuleSpec::* field, double value) {
  RuleSpec rule = kAdam;
  rule.*field = value;
  return rule;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(spec)

BOOST_AUTO_TEST_CASE(a_rule_refuses_what_it_does_not_use) {
  BOOST_TEST(complaint(RuleSpec{.kind = RuleKind::kAdagrad, .momentum = 0.9}) == "Adagrad does not use momentum");
  BOOST_TEST(complaint(RuleSpec{.kind = RuleKind::kSgd, .nesterov = true}) == "SGD does not use nesterov");
  BOOST_TEST(complaint(RuleSpec{.kind = RuleKind::kFtrl, .weight_decay = 0.1}) == "FTRL does not use weight_decay");
  BOOST_TEST(complaint(RuleSpec{.kind = RuleKind::kAdamax, .beta1 = 0.9, .amsgrad = true}) ==
             "Adamax does not use amsgrad");
  BOOST_TEST(complaint(RuleSpec{.kind = RuleKind::kRmsProp, .lr_power = -0.5}) == "RMSProp does not use lr_power");
  BOOST_TEST(complaint(RuleSpec{.kind = RuleKind::kPaddleRmsProp, .steps = StepSource::kPush}) ==
             "PaddleRMSProp counts no steps: steps must be row");
  BOOST_TEST(complaint(RuleSpec{.kind = RuleKind::kPaddleAdamax, .beta1 = 0.9, .amsgrad = true}) ==
             "PaddleAdamax does not use amsgrad");
  BOOST_TEST(complaint(RuleSpec{.kind = RuleKind::kLazyAdam, .beta1 = 0.9, .amsgrad = true}) ==
             "LazyAdam does not use amsgrad");
}

BOOST_AUTO_TEST_CASE(hyper_parameters_have_the_ranges_of_torch) {
  BOOST_TEST(complaint(kAdam) == "");
  BOOST_TEST(complaint(adam_with(&RuleSpec::lr, 0)) == "");
  BOOST_TEST(complaint(adam_with(&RuleSpec::lr, -0.1)) == "lr is -0.1: it must not be negative");
  BOOST_TEST(complaint(adam_with(&RuleSpec::beta1, 1)) == "beta1 is 1: it must be at least 0 and below 1");
  BOOST_TEST(complaint(adam_with(&RuleSpec::beta2, -0.5)) == "beta2 is -0.5: it must be at least 0 and below 1");
  BOOST_TEST(complaint(adam_with(&RuleSpec::epsilon, -1e-8)) == "epsilon is -1e-08: it must not be negative");
  BOOST_TEST(complaint(RuleSpec{.kind = RuleKind::kRmsProp, .alpha = 1.5}) == "alpha is 1.5: it must be from 0 to 1");
  BOOST_TEST(complaint(RuleSpec{.kind = RuleKind::kFtrl, .lr_power = 0.5}) ==
             "lr_power is 0.5: it must not be positive");
}

BOOST_AUTO_TEST_CASE(nesterov_needs_momentum_without_dampening) {
  RuleSpec rule = {.kind = RuleKind::kMomentum, .momentum = 0.9, .nesterov = true};
  BOOST_TEST(complaint(rule) == "");
  rule.dampening = 0.1;
  BOOST_TEST(complaint(rule) == "nesterov needs dampening 0");
  rule.dampening = 0;
  rule.momentum = 0;
  BOOST_TEST(complaint(rule) == "momentum is 0: Momentum needs it above 0; SGD does without");
}

BOOST_AUTO_TEST_CASE(no_number_may_be_other_than_a_finite_float32) {
  BOOST_TEST(complaint(adam_with(&RuleSpec::lr, kNan)) == "lr is nan: it must be a finite float32");
  BOOST_TEST(complaint(adam_with(&RuleSpec::weight_decay, kInfinity)) ==
             "weight_decay is inf: it must be a finite float32");
  BOOST_TEST(complaint(adam_with(&RuleSpec::momentum, kNan)) == "momentum is nan: it must be a finite float32");
  BOOST_TEST(complaint(adam_with(&RuleSpec::epsilon, 1e39)) == "epsilon is 1e+39: it must be a finite float32");
  BOOST_TEST(complaint(InitSpec{InitKind::kNormal, 0, kInfinity}) == "b is inf: it must be a finite float32");
  BOOST_TEST(complaint(InitSpec{InitKind::kConstant, kNan}) == "a is nan: it must be a finite float32");
}

BOOST_AUTO_TEST_CASE(enumerators_that_do_not_exist_are_refused) {
  BOOST_TEST(complaint(RuleSpec{.kind = static_cast<RuleKind>(13)}) == "rule 13 is unknown");
  BOOST_TEST(complaint(RuleSpec{.kind = static_cast<RuleKind>(0)}) == "rule 0 is unknown");
  BOOST_TEST(complaint(RuleSpec{.steps = static_cast<StepSource>(255)}) == "step source 255 is unknown");
  BOOST_TEST(complaint(InitSpec{static_cast<InitKind>(6)}) == "initialiser 6 is unknown");
  TableSpec table = sparse();
  table.storage = static_cast<Storage>(9);
  BOOST_TEST(complaint(table) == "storage 9 is unknown");
  table = sparse();
  table.kind = static_cast<TableKind>(3);
  BOOST_TEST(complaint(table) == "table kind 3 is unknown");
}

BOOST_AUTO_TEST_CASE(an_initialiser_needs_a_range_it_can_fill) {
  BOOST_TEST(complaint(InitSpec{InitKind::kUniform, -0.1, 0.1}) == "");
  BOOST_TEST(complaint(InitSpec{InitKind::kUniform, 1, 1}) == "a (1) must be below b (1) as float32");
  BOOST_TEST(complaint(InitSpec{InitKind::kUniform, 1, 1 + 1e-9}) == "a (1) must be below b (1.000000001) as float32");
  BOOST_TEST(complaint(InitSpec{InitKind::kUniform, -3e38, 3e38}) ==
             "the range from -3e+38 to 3e+38 is wider than a float32");
  BOOST_TEST(complaint(InitSpec{InitKind::kNormal, 0, -1}) == "the deviation is -1: it must not be negative");
  BOOST_TEST(complaint(InitSpec{InitKind::kTruncatedNormal, 0, 0, -1, 1}) == "the deviation is 0: it must be above 0");
  BOOST_TEST(complaint(InitSpec{InitKind::kTruncatedNormal, 0, 1, 2, -2}) ==
             "low (2) must be below high (-2) as float32");
  BOOST_TEST(complaint(InitSpec{InitKind::kTruncatedNormal, 0, 1, 9, 10}) ==
             "the range from 9 to 10 is more than 8 deviations from the mean 0");
  BOOST_TEST(complaint(InitSpec{InitKind::kXavierUniform, 1, 0, 0, 0}) ==
             "fan_in 0 and fan_out 0 must not be negative, nor both be 0");
  BOOST_TEST(complaint(InitSpec{InitKind::kXavierUniform, 0, 0, 10, 10}) == "the gain is 0: it must be above 0");
}

BOOST_AUTO_TEST_CASE(an_initialiser_refuses_what_it_does_not_use) {
  BOOST_TEST(complaint(InitSpec{InitKind::kConstant, 1, 2}) == "the constant initialiser does not use b");
  BOOST_TEST(complaint(InitSpec{InitKind::kNormal, 0, 1, -1, 1}) == "the normal initialiser does not use low and high");
}

BOOST_AUTO_TEST_CASE(a_name_is_short_and_plain) {
  BOOST_TEST(complaint(named("Wide.deep_1-a/b:c@d")) == "");
  BOOST_TEST(complaint(named(std::string(255, 'x'))) == "");
  BOOST_TEST(complaint(named("")) == "a table needs a name");
  BOOST_TEST(complaint(named(std::string(256, 'x'))) == "a table's name has 256 bytes: at most 255 are allowed");
  BOOST_TEST(complaint(named("a b")) == "a table's name contains byte 32: letters, digits and . _ - / : @ are allowed");
  BOOST_TEST(complaint(named("caf\xc3\xa9")).find("contains byte 195") != std::string::npos);
  BOOST_TEST(complaint(named(std::string("a\0b", 3))).find("contains byte 0") != std::string::npos);
}

// Names become parts of paths: a step upwards must not be among them.
BOOST_AUTO_TEST_CASE(a_name_cannot_climb_out_of_a_folder) {
  for (const char* name : {"..", "a/../b", "../a", "a/..", "/a", "a//b", "a/", "./a"}) {
    BOOST_TEST(complaint(named(name)) == "a table's name has a part between slashes that is empty, . or ..", name);
  }
  BOOST_TEST(complaint(named("a/..b/c...")) == "");
}

BOOST_AUTO_TEST_CASE(a_sparse_table_has_a_dim_and_nothing_dense) {
  TableSpec spec = sparse();
  BOOST_TEST(complaint(spec) == "");
  spec.dim = kMaxDim;
  BOOST_TEST(complaint(spec) == "");
  spec.dim = kMaxDim + 1;
  BOOST_TEST(complaint(spec) == "dim is 65537: it must be from 1 to 65536");
  spec.dim = 0;
  BOOST_TEST(complaint(spec) == "dim is 0: it must be from 1 to 65536");
  spec = sparse();
  spec.shape = {5};
  BOOST_TEST(complaint(spec) == "a sparse table has a dim, but no shape and no blocks");
}

BOOST_AUTO_TEST_CASE(dense_blocks_are_sorted_apart_and_inside) {
  BOOST_TEST(complaint(dense()) == "");
  BOOST_TEST(complaint(with_blocks({})) == "");
  BOOST_TEST(complaint(with_blocks({{0, 0, 101}})) == "block 0 reaches beyond the parameter's 100 elements");
  BOOST_TEST(complaint(with_blocks({{0, ~0ull - 1, 50}})) == "block 0 reaches beyond the parameter's 100 elements");
  BOOST_TEST(complaint(with_blocks({{0, 50, ~0ull}})) == "block 0 reaches beyond the parameter's 100 elements");
  BOOST_TEST(complaint(with_blocks({{3, 0, 0}})) == "block 3 is empty");
  BOOST_TEST(complaint(with_blocks({{0, 0, 50}, {1, 49, 10}})) == "block 1 overlaps block 0 or is out of order");
  BOOST_TEST(complaint(with_blocks({{1, 50, 50}, {0, 0, 50}})) == "block 0 overlaps block 1 or is out of order");
  BOOST_TEST(complaint(with_blocks({{1, 0, 50}, {1, 50, 50}})) == "block 1 overlaps block 1 or is out of order");
  TableSpec spec = with_blocks({});
  spec.shape = {3, 0};
  BOOST_TEST(complaint(spec) == "the shape [3, 0] has no elements");
  spec.shape = {1ull << 20, 1ull << 20};
  BOOST_TEST(complaint(spec) == "");
  spec.shape = {1ull << 33, 1ull << 33};
  BOOST_TEST(complaint(spec) ==
             "the shape [8589934592, 8589934592] has more than the 1099511627776 elements a parameter may have");
  spec.shape = {};  // a single number
  BOOST_TEST(complaint(spec) == "");
  spec.shape = std::vector<uint64_t>(65, 1);
  BOOST_TEST(complaint(spec) == "a shape of 65 sides; at most 64 are possible");
  spec = dense();
  spec.dim = 4;
  BOOST_TEST(complaint(spec) == "a dense table has a shape, but no dim");
}

BOOST_AUTO_TEST_CASE(lamb_needs_a_whole_dense_parameter) {
  RuleSpec lamb = kAdam;
  lamb.kind = RuleKind::kLamb;
  TableSpec spec = sparse();
  spec.rule = lamb;
  BOOST_TEST(complaint(spec) == "Lamb is for dense tables only: its trust ratio belongs to a whole parameter");
  spec = dense();
  spec.rule = lamb;
  BOOST_TEST(complaint(spec) == "Lamb needs its parameter in one block: its trust ratio belongs to a whole parameter");
  spec.blocks = {{0, 0, 100}};
  BOOST_TEST(complaint(spec) == "");
}

BOOST_AUTO_TEST_CASE(a_difference_names_what_differs) {
  TableSpec here = sparse();
  BOOST_TEST(difference(sparse(), here) == "");
  here.dim = 8;
  BOOST_TEST(difference(sparse(), here) == "dim is 16 there and 8 here");
  here.rule = {.kind = RuleKind::kAdagrad, .lr = 0.05, .epsilon = 1e-10};
  BOOST_TEST(difference(sparse(), here) ==
             "dim is 16 there and 8 here; rule is SGD there and Adagrad here; epsilon is 0 there and 1e-10 here");
  here = sparse();
  here.rule.lr = 0.05;
  BOOST_TEST(difference(sparse(), here) == "", "a learning rate travels with each push");
  here = sparse();
  here.init = {InitKind::kUniform, -0.5, 0.5};
  BOOST_TEST(difference(sparse(), here) == "initialiser is constant 0 0 0 0 there and uniform -0.5 0.5 0 0 here");
  BOOST_TEST(difference(dense(), with_blocks({{0, 0, 40}})) ==
             "layout is blocks 0:0+40 2:60+40 there and blocks 0:0+40 here");
}

BOOST_AUTO_TEST_SUITE_END()
