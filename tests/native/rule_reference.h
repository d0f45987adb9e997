#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "common/check.h"
#include "common/spec.h"

// The rules again, in double and as their papers and the documentation of torch and Paddle write them: slow, plain, and
// sharing nothing with native/optim.
namespace flota::reference {

struct Parameter {
  std::vector<double> w, first, second, third;

  Parameter(std::vector<double> weights, double initial_accumulator)
      : w(std::move(weights)), first(w.size(), initial_accumulator), second(w.size(), 0), third(w.size(), 0) {}
};

// One step on one element. `first`, `second` and `third` are what the rule remembers, in an order of its own choosing.
struct Element {
  double &w, &first, &second, &third;
};

inline void momentum(const RuleSpec& rule, double lr, bool is_first, double g, Element e) {
  g += rule.weight_decay * e.w;
  e.first = is_first ? g : rule.momentum * e.first + (1 - rule.dampening) * g;
  e.w -= lr * (rule.nesterov ? g + rule.momentum * e.first : e.first);
}

inline void adagrad(const RuleSpec& rule, double lr, double t, double g, Element e) {
  g += rule.weight_decay * e.w;
  e.first += g * g;
  e.w -= lr / (1 + (t - 1) * rule.lr_decay) * g / (std::sqrt(e.first) + rule.epsilon);
}

inline void rmsprop(const RuleSpec& rule, double lr, double g, Element e) {
  g += rule.weight_decay * e.w;
  e.first = rule.alpha * e.first + (1 - rule.alpha) * g * g;
  e.second = rule.alpha * e.second + (1 - rule.alpha) * g;
  const double variance = rule.centered ? e.first - e.second * e.second : e.first;
  const double change = g / (std::sqrt(variance) + rule.epsilon);
  e.third = rule.momentum * e.third + change;
  e.w -= lr * (rule.momentum > 0 ? e.third : change);
}

inline void paddle_rmsprop(const RuleSpec& rule, double lr, double g, Element e) {
  g += rule.weight_decay * e.w;
  e.first = rule.alpha * e.first + (1 - rule.alpha) * g * g;
  e.second = rule.alpha * e.second + (1 - rule.alpha) * g;
  const double variance = rule.centered ? e.first - e.second * e.second : e.first;
  e.third = rule.momentum * e.third + lr * g / std::sqrt(variance + rule.epsilon);
  e.w -= e.third;
}

inline void adam(const RuleSpec& rule, double lr, double t, double g, Element e) {
  if (rule.kind != RuleKind::kAdamW) g += rule.weight_decay * e.w;
  if (rule.kind == RuleKind::kAdamW) e.w -= lr * rule.weight_decay * e.w;
  e.first = rule.beta1 * e.first + (1 - rule.beta1) * g;
  e.second = rule.beta2 * e.second + (1 - rule.beta2) * g * g;
  e.third = std::max(e.third, e.second);
  const double mean = e.first / (1 - std::pow(rule.beta1, t));
  const double square = (rule.amsgrad ? e.third : e.second) / (1 - std::pow(rule.beta2, t));
  e.w -= lr * mean / (std::sqrt(square) + rule.epsilon);
}

inline void adamax(const RuleSpec& rule, double lr, double t, double g, Element e) {
  g += rule.weight_decay * e.w;
  e.first = rule.beta1 * e.first + (1 - rule.beta1) * g;
  e.second = rule.kind == RuleKind::kPaddleAdamax ? std::max(rule.beta2 * e.second + rule.epsilon, std::fabs(g))
                                                  : std::max(rule.beta2 * e.second, std::fabs(g) + rule.epsilon);
  e.w -= lr / (1 - std::pow(rule.beta1, t)) * e.first / e.second;
}

inline void ftrl(const RuleSpec& rule, double lr, double g, Element e) {
  const double before = std::pow(e.first, -rule.lr_power);
  e.first += g * g;
  const double after = std::pow(e.first, -rule.lr_power);
  e.second += g - (after - before) / lr * e.w;
  const double sign = e.second > 0 ? 1 : -1;
  const double minimum = (sign * rule.l1 - e.second) / (after / lr + 2 * rule.l2);
  e.w = std::fabs(e.second) > rule.l1 ? minimum : 0;
}

inline void lamb(const RuleSpec& rule, double lr, double t, const std::vector<double>& g, Parameter& p) {
  std::vector<double> direction(g.size());
  double weight_norm = 0, direction_norm = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    p.first[i] = rule.beta1 * p.first[i] + (1 - rule.beta1) * g[i];
    p.second[i] = rule.beta2 * p.second[i] + (1 - rule.beta2) * g[i] * g[i];
    const double mean = p.first[i] / (1 - std::pow(rule.beta1, t));
    const double square = p.second[i] / (1 - std::pow(rule.beta2, t));
    direction[i] = mean / (std::sqrt(square) + rule.epsilon) + rule.weight_decay * p.w[i];
    weight_norm += p.w[i] * p.w[i];
    direction_norm += direction[i] * direction[i];
  }
  const bool both = weight_norm > 0 && direction_norm > 0;
  const double ratio = both ? std::sqrt(weight_norm) / std::sqrt(direction_norm) : 1;
  for (size_t i = 0; i < g.size(); ++i) p.w[i] -= lr * ratio * direction[i];
}

// The t-th step of a parameter, counted as rule.steps says; `updates` counts its own earlier ones.
inline void step(const RuleSpec& rule, double lr, uint64_t count, uint64_t updates, const std::vector<double>& g,
                 Parameter& p) {
  const auto t = static_cast<double>(count);
  if (rule.kind == RuleKind::kLamb) return lamb(rule, lr, t, g, p);
  for (size_t i = 0; i < g.size(); ++i) {
    const Element e = {p.w[i], p.first[i], p.second[i], p.third[i]};
    switch (rule.kind) {
      case RuleKind::kSgd:
        e.w -= lr * (g[i] + rule.weight_decay * e.w);
        break;
      case RuleKind::kMomentum:
        momentum(rule, lr, updates == 0, g[i], e);
        break;
      case RuleKind::kAdagrad:
        adagrad(rule, lr, t, g[i], e);
        break;
      case RuleKind::kRmsProp:
        rmsprop(rule, lr, g[i], e);
        break;
      case RuleKind::kPaddleRmsProp:
        paddle_rmsprop(rule, lr, g[i], e);
        break;
      case RuleKind::kAdam:
      case RuleKind::kAdamW:
      case RuleKind::kLazyAdam:
        adam(rule, lr, t, g[i], e);
        break;
      case RuleKind::kAdamax:
      case RuleKind::kPaddleAdamax:
        adamax(rule, lr, t, g[i], e);
        break;
      case RuleKind::kFtrl:
        ftrl(rule, lr, g[i], e);
        break;
      default:
        FLOTA_CHECK(false, "a rule without a reference");
    }
  }
}

}  // namespace flota::reference
