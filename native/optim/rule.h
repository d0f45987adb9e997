#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/result.h"
#include "common/spec.h"

// How a gradient changes weights: the arithmetic of torch.optim, or Paddle's where a rule is named after it, for a few
// rows at a time. A rule knows floats only: no table, no key, no lock.
namespace flota {

// What a push brings for all of its rows.
struct Step {
  float lr = 0;
  float scale = 1;    // multiplies every gradient before anything else
  uint64_t step = 0;  // the worker's step, from 1; the rule's "t" when its spec says StepSource::kPush
};

// One row, or one block of a dense parameter, about to be updated.
struct RowView {
  float* weights;    // `dim` floats
  float* state;      // `state_slots() * dim` floats, slot after slot
  uint64_t updates;  // how often it was updated before this
};

class Rule {
 public:
  virtual ~Rule() = default;

  // Requires: spec passed validate().
  static std::unique_ptr<const Rule> make(const RuleSpec& spec);

  // Floats of state for each weight.
  virtual size_t state_slots() const = 0;

  // Writes the state of a row that was never updated. Requires: state.size() == state_slots() * dim.
  virtual void init_state(std::span<float> state, size_t dim) const = 0;

  // Updates rows[i] by gradients[i * dim ...]. The result for an element depends on that element's own weight, state
  // and gradient only (Lamb: on the whole row's), never on its place in the row, so a parameter cut elsewhere gets the
  // same bits. Thread safety: const, any thread; the rows must be the caller's alone.
  virtual void update(const Step& step, size_t dim, std::span<const RowView> rows, const float* gradients) const = 0;
};

}  // namespace flota
