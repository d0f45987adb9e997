#pragma once

#include <nanobind/nanobind.h>

#include <atomic>

#include "common/interrupt.h"

namespace flota {

// Around a call that may wait for a peer: other Python threads run meanwhile, and Ctrl-C ends the wait.
class Waiting {
 public:
  Waiting() : interrupt_(&interrupted) {}

  // The process ends: all waits of other threads end, too, and this returns when they are back in Python, or after two
  // seconds. A thread that would come back to an interpreter that is gone takes the whole process down.
  static void end_all();

 private:
  struct Counted {
    Counted() { count.fetch_add(1); }
    ~Counted() { count.fetch_sub(1); }
  };
  static inline std::atomic<int> count{0};
  static inline std::atomic<bool> ending{false};

  // Runs the handlers of signals that came; whether one raised. What it raised is kept for raise_error().
  static bool interrupted();

  Counted counted_;  // first: until the interpreter is there again
  nanobind::gil_scoped_release release_;
  Interrupt interrupt_;
};

}  // namespace flota
