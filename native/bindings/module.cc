#include <nanobind/nanobind.h>

#include "bindings/errors.h"

NB_MODULE(_core, module) {
  // What a script's global variables hold to the very end is no leak; torch keeps tensors, and their hooks, till then.
  nanobind::set_leak_warnings(false);
  module.doc() = "flota's native core: tables, servers and clients. Use it through flota.client and flota.testing.";
#if defined(__x86_64__)
  // The wheel is built for x86-64-v3; an older processor would stop at the first row with an illegal instruction.
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    throw nanobind::import_error(
        "this build of flota needs a processor with AVX2 and FMA (2013 or later); build it from source with "
        "CMAKE_ARGS=-DFLOTA_MARCH=x86-64 for older ones");
  }
#endif
  flota::bind_errors(module);
  flota::bind_specs(module);
  flota::bind_tables(module);
  flota::bind_server(module);
  flota::bind_certificates(module);
  flota::bind_client(module);
  flota::bind_data(module);
  flota::bind_stores(module);
}
