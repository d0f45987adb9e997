#pragma once

#include <memory>

#include "optim/rule.h"

// One maker for each RuleKind; Rule::make() chooses. Each requires a spec of its kind that passed validate().
namespace flota {

std::unique_ptr<const Rule> make_sgd(const RuleSpec& spec);
std::unique_ptr<const Rule> make_momentum(const RuleSpec& spec);
std::unique_ptr<const Rule> make_adagrad(const RuleSpec& spec);
std::unique_ptr<const Rule> make_rmsprop(const RuleSpec& spec);
std::unique_ptr<const Rule> make_adam(const RuleSpec& spec);
std::unique_ptr<const Rule> make_adamw(const RuleSpec& spec);
std::unique_ptr<const Rule> make_adamax(const RuleSpec& spec);
std::unique_ptr<const Rule> make_lamb(const RuleSpec& spec);
std::unique_ptr<const Rule> make_ftrl(const RuleSpec& spec);
std::unique_ptr<const Rule> make_paddle_rmsprop(const RuleSpec& spec);
std::unique_ptr<const Rule> make_paddle_adamax(const RuleSpec& spec);
std::unique_ptr<const Rule> make_lazy_adam(const RuleSpec& spec);

}  // namespace flota
