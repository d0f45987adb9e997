#pragma once

#include <nanobind/nanobind.h>

#include "common/interrupt.h"

namespace flota {

// Around a call that may wait for a peer: other Python threads run meanwhile, and Ctrl-C ends the wait.
class Waiting {
 public:
  Waiting() : interrupt_(&interrupted) {}

 private:
  // Runs the handlers of signals that came; whether one raised. What it raised is kept for raise_error().
  static bool interrupted();

  nanobind::gil_scoped_release release_;
  Interrupt interrupt_;
};

}  // namespace flota
