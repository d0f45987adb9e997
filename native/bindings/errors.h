#pragma once

#include <nanobind/nanobind.h>

#include "common/result.h"

namespace flota {

// A failed Result on its way to Python.
struct Failure {
  Error error;
};

inline void check(const Result<void>& result) {
  if (!result) throw Failure{result.error()};
}

template <class T>
T take(Result<T>&& result) {
  if (!result) throw Failure{result.error()};
  return std::move(*result);
}

// Turns Failure into the exceptions of flota.errors.
void bind_errors(nanobind::module_& module);
void bind_specs(nanobind::module_& module);
void bind_tables(nanobind::module_& module);
void bind_server(nanobind::module_& module);
void bind_client(nanobind::module_& module);

}  // namespace flota
