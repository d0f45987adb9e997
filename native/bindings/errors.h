#pragma once

#include <nanobind/nanobind.h>

#include "common/result.h"

namespace flota {

// Throws what becomes the error's exception of flota.errors, or what a signal handler raised while the call waited.
[[noreturn]] void raise_error(const Error& error);

inline void check(const Result<void>& result) {
  if (!result) raise_error(result.error());
}

template <class T>
T take(Result<T>&& result) {
  if (!result) raise_error(result.error());
  return std::move(*result);
}

// Makes raise_error() understood.
void bind_errors(nanobind::module_& module);
void bind_specs(nanobind::module_& module);
void bind_tables(nanobind::module_& module);
void bind_server(nanobind::module_& module);
void bind_certificates(nanobind::module_& module);
void bind_client(nanobind::module_& module);
void bind_data(nanobind::module_& module);
void bind_stores(nanobind::module_& module);

}  // namespace flota
