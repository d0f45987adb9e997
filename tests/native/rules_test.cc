#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "optim/rule.h"
#include "rule_reference.h"

using namespace flota;

namespace {

struct Case {
  std::string name;
  RuleSpec rule;
};

RuleSpec adam_like(RuleKind kind) { return {.kind = kind, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}; }

// Every rule, with each of its options set and not set.
std::vector<Case> cases() {
  std::vector<Case> all = {
      {"SGD", {.kind = RuleKind::kSgd}},
      {"SGD, decay", {.kind = RuleKind::kSgd, .weight_decay = 0.01}},
      {"Momentum", {.kind = RuleKind::kMomentum, .momentum = 0.9}},
      {"Momentum, dampening, decay",
       {.kind = RuleKind::kMomentum, .weight_decay = 0.01, .momentum = 0.9, .dampening = 0.3}},
      {"Nesterov", {.kind = RuleKind::kMomentum, .weight_decay = 0.01, .momentum = 0.8, .nesterov = true}},
      {"Adagrad", {.kind = RuleKind::kAdagrad, .epsilon = 1e-10}},
      {"Adagrad, all options",
       {.kind = RuleKind::kAdagrad,
        .weight_decay = 0.01,
        .epsilon = 1e-6,
        .lr_decay = 0.1,
        .initial_accumulator = 0.1}},
      {"RMSProp", {.kind = RuleKind::kRmsProp, .epsilon = 1e-8, .alpha = 0.99}},
      {"RMSProp, centered", {.kind = RuleKind::kRmsProp, .epsilon = 1e-8, .alpha = 0.9, .centered = true}},
      {"RMSProp, momentum, decay",
       {.kind = RuleKind::kRmsProp, .weight_decay = 0.01, .momentum = 0.9, .epsilon = 1e-8, .alpha = 0.3}},
      {"RMSProp, centered, momentum",
       {.kind = RuleKind::kRmsProp, .momentum = 0.5, .epsilon = 1e-3, .alpha = 0.95, .centered = true}},
      {"PaddleRMSProp", {.kind = RuleKind::kPaddleRmsProp, .epsilon = 1e-6, .alpha = 0.95}},
      {"PaddleRMSProp, centered", {.kind = RuleKind::kPaddleRmsProp, .epsilon = 1e-3, .alpha = 0.9, .centered = true}},
      {"PaddleRMSProp, momentum, decay",
       {.kind = RuleKind::kPaddleRmsProp, .weight_decay = 0.01, .momentum = 0.9, .epsilon = 1e-2, .alpha = 0.3}},
      {"PaddleRMSProp, centered, momentum",
       {.kind = RuleKind::kPaddleRmsProp, .momentum = 0.5, .epsilon = 1e-3, .alpha = 0.95, .centered = true}},
      {"PaddleAdamax, large epsilon", {.kind = RuleKind::kPaddleAdamax, .beta1 = 0.8, .beta2 = 0.9, .epsilon = 0.05}},
      {"LazyAdam, large epsilon", {.kind = RuleKind::kLazyAdam, .beta1 = 0.8, .beta2 = 0.9, .epsilon = 0.05}},
      {"FTRL", {.kind = RuleKind::kFtrl, .lr_power = -0.5}},
      {"FTRL, all options",
       {.kind = RuleKind::kFtrl, .initial_accumulator = 0.1, .l1 = 0.5, .l2 = 0.3, .lr_power = -0.5}},
      {"FTRL, another power",
       {.kind = RuleKind::kFtrl, .initial_accumulator = 0.1, .l1 = 0.1, .l2 = 0.1, .lr_power = -0.7}},
  };
  all.push_back({"Lamb, no epsilon", {.kind = RuleKind::kLamb, .beta1 = 0.9, .beta2 = 0.99}});
  for (const RuleKind kind : {RuleKind::kAdam, RuleKind::kAdamW, RuleKind::kLazyAdam, RuleKind::kAdamax,
                              RuleKind::kPaddleAdamax, RuleKind::kLamb}) {
    RuleSpec rule = adam_like(kind);
    all.push_back({to_string(kind), rule});
    rule.weight_decay = 0.05;
    rule.beta1 = 0.4;
    rule.beta2 = 0.95;
    all.push_back({std::string(to_string(kind)) + ", decay, other betas", rule});
    rule.amsgrad = true;
    if (kind == RuleKind::kAdam || kind == RuleKind::kAdamW) {
      all.push_back({std::string(to_string(kind)) + ", AMSGrad", rule});
    }
  }
  return all;
}

// A row in memory as a table would lay it out, with a guard behind it.
struct Row {
  std::vector<float> floats;
  size_t dim;
  uint64_t updates = 0;

  static constexpr float kGuard = 12345;

  Row(const Rule& rule, const std::vector<float>& weights)
      : floats(weights.size() * (1 + rule.state_slots()) + 1, kGuard), dim(weights.size()) {
    std::copy(weights.begin(), weights.end(), floats.begin());
    rule.init_state({floats.data() + dim, dim * rule.state_slots()}, dim);
  }
  RowView view() { return {floats.data(), floats.data() + dim, updates}; }
  void update(const Rule& rule, const Step& step, const std::vector<float>& gradient) {
    const RowView row = view();
    rule.update(step, dim, {&row, 1}, gradient.data());
    updates += 1;
  }
};

std::vector<float> normal_floats(std::mt19937& random, size_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& value : out) value = normal(random);
  return out;
}

std::vector<double> doubles(const std::vector<float>& values, double scale = 1) {
  std::vector<double> out;
  for (const float value : values) out.push_back(value * scale);
  return out;
}

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// The largest error after 200 steps with a falling rate, a gradient scale, and push steps that start late and skip.
double error_after_200_steps(const RuleSpec& spec, size_t dim) {
  const auto rule = Rule::make(spec);
  std::mt19937 random(dim);
  const std::vector<float> start = normal_floats(random, dim);
  Row row(*rule, start);
  reference::Parameter expected(doubles(start), spec.initial_accumulator);
  uint64_t push_step = 4;
  for (uint64_t i = 0; i < 200; ++i) {
    push_step += 1 + i % 3;
    const Step step = {0.05f / static_cast<float>(1 + i / 50), 0.5f, push_step};
    const std::vector<float> gradient = normal_floats(random, dim);
    const uint64_t t = spec.steps == StepSource::kRow ? i + 1 : push_step;
    reference::step(spec, step.lr, t, i, doubles(gradient, step.scale), expected);
    row.update(*rule, step, gradient);
  }
  BOOST_TEST(row.floats.back() == Row::kGuard);
  double worst = 0;
  for (size_t i = 0; i < dim; ++i) {
    worst = std::max(worst, std::fabs(row.floats[i] - expected.w[i]) / std::max(1.0, std::fabs(expected.w[i])));
  }
  return worst;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rules)

BOOST_AUTO_TEST_CASE(two_hundred_steps_agree_with_a_double_reference) {
  for (Case& example : cases()) {
    for (const StepSource steps : {StepSource::kRow, StepSource::kPush}) {
      for (const size_t dim : {1, 3, 8, 10, 16, 37}) {
        example.rule.steps = steps;
        // A rule that counts no steps takes them from nowhere else.
        if (steps == StepSource::kPush && !validate(example.rule)) continue;
        BOOST_TEST_REQUIRE(validate(example.rule).has_value());
        BOOST_TEST_CONTEXT(example.name << ", steps of the " << to_string(steps) << ", dim " << dim) {
          BOOST_TEST(error_after_200_steps(example.rule, dim) < 1e-5);
        }
      }
    }
  }
}

// The same 29 elements, in one row of 29, in rows of 1 to 19 and at every place of them: always the same bits.
BOOST_AUTO_TEST_CASE(an_element_does_not_depend_on_its_place) {
  constexpr size_t kElements = 29, kSteps = 12;
  for (const Case& example : cases()) {
    if (example.rule.kind == RuleKind::kLamb) continue;
    const auto rule = Rule::make(example.rule);
    std::mt19937 random(1);
    const std::vector<float> start = normal_floats(random, kElements);
    std::vector<std::vector<float>> gradients(kSteps);
    for (auto& gradient : gradients) gradient = normal_floats(random, kElements);
    Row whole(*rule, start);
    for (const auto& gradient : gradients) whole.update(*rule, {0.1f, 0.7f, 3}, gradient);

    for (size_t dim = 1; dim < 20; ++dim) {
      for (size_t first = 0; first + dim <= kElements; ++first) {
        Row part(*rule, {start.begin() + first, start.begin() + first + dim});
        for (const auto& gradient : gradients) {
          part.update(*rule, {0.1f, 0.7f, 3}, {gradient.begin() + first, gradient.begin() + first + dim});
        }
        for (size_t slot = 0; slot <= rule->state_slots(); ++slot) {
          for (size_t i = 0; i < dim; ++i) {
            const bool same = same_bits(part.floats[slot * dim + i], whole.floats[slot * kElements + first + i]);
            if (!same) BOOST_ERROR(example.name << ": dim " << dim << " from " << first << ", element " << i);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(rows_updated_together_get_what_they_get_alone) {
  constexpr size_t kRows = 5, kDim = 11;
  for (const Case& example : cases()) {
    const auto rule = Rule::make(example.rule);
    std::mt19937 random(2);
    std::vector<Row> together, alone;
    for (size_t i = 0; i < kRows; ++i) {
      together.emplace_back(*rule, normal_floats(random, kDim));
      together.back().updates = i * i * 7;
      alone.push_back(together.back());
    }
    const std::vector<float> gradients = normal_floats(random, kRows * kDim);
    const Step step = {0.1f, 1, 9};
    std::vector<RowView> views;
    for (Row& row : together) views.push_back(row.view());
    rule->update(step, kDim, views, gradients.data());
    for (size_t i = 0; i < kRows; ++i) {
      alone[i].update(*rule, step, {gradients.begin() + i * kDim, gradients.begin() + (i + 1) * kDim});
      BOOST_TEST(together[i].floats == alone[i].floats, example.name);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_new_row_starts_from_the_initial_accumulator) {
  const RuleSpec ftrl = {.kind = RuleKind::kFtrl, .initial_accumulator = 0.25, .lr_power = -0.5};
  std::vector<float> state(6, -1);
  Rule::make(ftrl)->init_state(state, 3);
  BOOST_TEST(state == (std::vector<float>{0.25, 0.25, 0.25, 0, 0, 0}));

  const RuleSpec adagrad = {.kind = RuleKind::kAdagrad, .initial_accumulator = 0.5};
  BOOST_TEST(Rule::make(adagrad)->state_slots() == 1u);
  Rule::make(adagrad)->init_state({state.data(), 3}, 3);
  BOOST_TEST(state[2] == 0.5f);
}

BOOST_AUTO_TEST_CASE(only_the_options_in_use_take_state) {
  const auto slots = [](const RuleSpec& spec) { return Rule::make(spec)->state_slots(); };
  RuleSpec adam = adam_like(RuleKind::kAdam);
  BOOST_TEST(slots({.kind = RuleKind::kSgd}) == 0u);
  BOOST_TEST(slots({.kind = RuleKind::kMomentum, .momentum = 0.9}) == 1u);
  BOOST_TEST(slots({.kind = RuleKind::kRmsProp}) == 1u);
  BOOST_TEST(slots({.kind = RuleKind::kRmsProp, .momentum = 0.9, .centered = true}) == 3u);
  BOOST_TEST(slots({.kind = RuleKind::kPaddleRmsProp}) == 1u);
  BOOST_TEST(slots({.kind = RuleKind::kPaddleRmsProp, .momentum = 0.9}) == 2u);
  BOOST_TEST(slots(adam) == 2u);
  adam.amsgrad = true;
  BOOST_TEST(slots(adam) == 3u);
}

// Beyond the tabled corrections, and beyond where they are 1.
BOOST_AUTO_TEST_CASE(bias_corrections_are_right_for_any_count) {
  for (const double beta2 : {0.999, 0.99999}) {
    for (const uint64_t updates : {0ull, 100ull, 17000ull, 131071ull, 131072ull, 1048575ull, 1ull << 40}) {
      RuleSpec spec = adam_like(RuleKind::kAdam);
      spec.beta2 = beta2;
      const auto rule = Rule::make(spec);
      Row row(*rule, {0.0f});
      row.updates = updates;
      reference::Parameter expected({0.0}, 0);
      reference::step(spec, 1.0, updates + 1, updates, {0.5}, expected);
      row.update(*rule, {1.0f, 1, 1}, {0.5f});
      BOOST_TEST(row.floats[0] == expected.w[0], boost::test_tools::tolerance(1e-5));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_push_without_a_step_counts_as_the_first) {
  RuleSpec spec = adam_like(RuleKind::kAdam);
  spec.steps = StepSource::kPush;
  const auto rule = Rule::make(spec);
  Row without(*rule, {1.0f}), first(*rule, {1.0f});
  without.update(*rule, {0.1f, 1, 0}, {0.5f});
  first.update(*rule, {0.1f, 1, 1}, {0.5f});
  BOOST_TEST(without.floats == first.floats);
}

BOOST_AUTO_TEST_CASE(ftrl_leaves_a_row_alone_at_rate_zero) {
  const auto rule = Rule::make({.kind = RuleKind::kFtrl, .initial_accumulator = 0.1, .lr_power = -0.5});
  Row row(*rule, {1, 2, 3});
  const std::vector<float> before = row.floats;
  row.update(*rule, {0, 1, 1}, {1, 1, 1});
  BOOST_TEST(row.floats == before);
}

BOOST_AUTO_TEST_CASE(ftrl_survives_gradients_whose_square_is_zero) {
  const auto rule = Rule::make({.kind = RuleKind::kFtrl, .lr_power = -0.5});
  Row row(*rule, {1});
  row.update(*rule, {0.1f, 1, 1}, {1e-30f});
  BOOST_TEST(row.floats[0] == 0);
}

// torch's square root of the rounded variance is NaN here.
BOOST_AUTO_TEST_CASE(centered_rmsprop_survives_a_gradient_that_never_changes) {
  const auto rule = Rule::make({.kind = RuleKind::kRmsProp, .epsilon = 1e-8, .alpha = 0.9, .centered = true});
  Row row(*rule, {1});
  for (uint64_t i = 1; i <= 200; ++i) row.update(*rule, {1e-9f, 1, i}, {0.0237f});
  BOOST_TEST(std::isfinite(row.floats[0]));
}

// Without room for rounding, epsilon is what keeps the root of the variance above zero.
BOOST_AUTO_TEST_CASE(paddles_centered_rmsprop_survives_it_too) {
  const auto rule = Rule::make({.kind = RuleKind::kPaddleRmsProp, .epsilon = 1e-12, .alpha = 0.9, .centered = true});
  Row row(*rule, {1});
  for (uint64_t i = 1; i <= 200; ++i) row.update(*rule, {1e-9f, 1, i}, {0.0237f});
  BOOST_TEST(std::isfinite(row.floats[0]));
}

// A checkpoint's state is Paddle's: how far the weight goes down.
BOOST_AUTO_TEST_CASE(paddles_rmsprop_keeps_the_rate_in_its_momentum) {
  const auto rule = Rule::make({.kind = RuleKind::kPaddleRmsProp, .momentum = 0.5, .epsilon = 0.75, .alpha = 0.75});
  Row row(*rule, {1});
  row.update(*rule, {0.5f, 1, 1}, {1});
  BOOST_TEST(row.floats[0] == 0.5f);
  BOOST_TEST(row.floats[1] == 0.25f);
  BOOST_TEST(row.floats[2] == 0.5f);
  row.update(*rule, {0, 1, 2}, {1});
  BOOST_TEST(row.floats[0] == 0.25f, "the earlier rate's half");
}

// Paddle's lazy mode corrects a row by the steps of all, as SparseAdam does, and adds epsilon as Adam does.
BOOST_AUTO_TEST_CASE(lazy_adam_is_adam_by_the_steps_of_pushes) {
  RuleSpec lazy = adam_like(RuleKind::kLazyAdam), adam = adam_like(RuleKind::kAdam);
  lazy.steps = StepSource::kPush;
  lazy.epsilon = adam.epsilon = 0.1;
  Row by_push(*Rule::make(lazy), {1, 2}), by_row(*Rule::make(adam), {1, 2});
  by_row.updates = 6;
  by_push.update(*Rule::make(lazy), {0.1f, 1, 7}, {0.5f, -0.25f});
  by_row.update(*Rule::make(adam), {0.1f, 1, 1}, {0.5f, -0.25f});
  BOOST_TEST(by_push.floats == by_row.floats);
}

BOOST_AUTO_TEST_CASE(lamb_takes_a_plain_step_from_zero_weights) {
  RuleSpec spec = adam_like(RuleKind::kLamb);
  spec.epsilon = 0;
  const auto rule = Rule::make(spec);
  Row row(*rule, {0, 0, 0});
  row.update(*rule, {0.5f, 1, 1}, {1, -2, 3});
  const float expected[] = {-0.5f, 0.5f, -0.5f};
  for (size_t i = 0; i < 3; ++i) BOOST_TEST(row.floats[i] == expected[i], boost::test_tools::tolerance(1e-6f));
}

BOOST_AUTO_TEST_SUITE_END()
