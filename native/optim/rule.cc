#include "optim/rule.h"

#include "common/check.h"
#include "optim/rules.h"

namespace flota {
namespace {

struct Maker {
  RuleKind kind;
  std::unique_ptr<const Rule> (*make)(const RuleSpec&);
};

constexpr Maker kMakers[] = {
    {RuleKind::kSgd, make_sgd},
    {RuleKind::kMomentum, make_momentum},
    {RuleKind::kAdagrad, make_adagrad},
    {RuleKind::kRmsProp, make_rmsprop},
    {RuleKind::kAdam, make_adam},
    {RuleKind::kAdamW, make_adamw},
    {RuleKind::kAdamax, make_adamax},
    {RuleKind::kLamb, make_lamb},
    {RuleKind::kFtrl, make_ftrl},
    {RuleKind::kPaddleRmsProp, make_paddle_rmsprop},
    {RuleKind::kPaddleAdamax, make_paddle_adamax},
    {RuleKind::kLazyAdam, make_lazy_adam},
};

}  // namespace

std::unique_ptr<const Rule> Rule::make(const RuleSpec& spec) {
  for (const Maker& maker : kMakers) {
    if (maker.kind == spec.kind) return maker.make(spec);
  }
  FLOTA_CHECK(false, "a rule of a kind that validate() does not know");
}

}  // namespace flota
