// Lines of a server on standard error.
#pragma once

#include <nanobind/nanobind.h>

#include "server/server.h"

namespace flota {

// Which lines are written, and whether as text or as JSON objects.
struct LogOptions {
  LogLevel level = LogLevel::kInfo;  // and those above
  bool json = false;
};

void bind_log_lines(nanobind::module_& module);

// Writes lines of server `index`: `flota server 0: text`, or
// {"time": "2026-11-19T08:00:00.123Z", "level": "info", "role": "server", "index": 0, "pid": 4711, "message": "text"}
LogLine log_lines(LogOptions options, uint32_t index);

}  // namespace flota
