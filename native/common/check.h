#pragma once

#include <cstdio>
#include <cstdlib>

// A broken invariant is a bug in flota: it aborts with a message instead of going on with wrong numbers.
#define FLOTA_CHECK(condition, what)                                                          \
  do {                                                                                        \
    if (!(condition)) [[unlikely]] {                                                          \
      std::fprintf(stderr, "flota: internal error at %s:%d: %s\n", __FILE__, __LINE__, what); \
      std::abort();                                                                           \
    }                                                                                         \
  } while (0)
