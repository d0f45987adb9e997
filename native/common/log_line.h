// Lines for people about what a process does.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace flota {

// kInfo: as it should be; kWarning: it goes on, and somebody should look; kError: something is lost or not done.
enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

// Takes one line. Thread safety: any thread, as whoever is given one may call it from several.
using LogLine = std::function<void(LogLevel level, const std::string& text)>;

}  // namespace flota
