#include "bindings/log_lines.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <string_view>

namespace nb = nanobind;

namespace flota {
namespace {

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      break;
  }
  return "error";
}

std::string now_utc() {
  const auto now = std::chrono::system_clock::now();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900, parts.tm_mon + 1,
                parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, static_cast<int>(ms));
  return text;
}

// The length of the UTF-8 sequence that `text` begins with; 0: it begins with none.
size_t sequence(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto more = [&](size_t i) { return (at(i) & 0xC0) == 0x80; };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return more(1) ? 2 : 0;
  if (first >= 0xE0 && first < 0xF0) {
    const bool whole = more(1) && more(2);
    const bool longest = !(first == 0xE0 && at(1) < 0xA0) && !(first == 0xED && at(1) >= 0xA0);
    return whole && longest ? 3 : 0;
  }
  if (first >= 0xF0 && first < 0xF5) {
    const bool whole = more(1) && more(2) && more(3);
    const bool longest = !(first == 0xF0 && at(1) < 0x90) && !(first == 0xF4 && at(1) >= 0x90);
    return whole && longest ? 4 : 0;
  }
  return 0;
}

// A JSON string. What is no UTF-8, as a peer or a file's name may bring it, becomes a question mark.
std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = sequence(text);
    const unsigned char c = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      out += '?';
    } else if (c == '"' || c == '\\') {
      out += {'\\', static_cast<char>(c)};
    } else if (c < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out += escape;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + '"';
}

std::string as_json(LogLevel level, uint32_t index, const std::string& text) {
  return "{\"time\": \"" + now_utc() + "\", \"level\": \"" + name_of(level) +
         "\", \"role\": \"server\", \"index\": " + std::to_string(index) + ", \"pid\": " + std::to_string(::getpid()) +
         ", \"message\": " + json_string(text) + "}";
}

}  // namespace

void bind_log_lines(nb::module_& module) {
  nb::enum_<LogLevel>(module, "LogLevel")
      .value("debug", LogLevel::kDebug)
      .value("info", LogLevel::kInfo)
      .value("warning", LogLevel::kWarning)
      .value("error", LogLevel::kError);
}

LogLine log_lines(LogOptions options, uint32_t index) {
  return [options, index](LogLevel level, const std::string& text) {
    if (level < options.level) return;
    const std::string line =
        (options.json ? as_json(level, index, text) : "flota server " + std::to_string(index) + ": " + text) + "\n";
    // One call: lines of several threads do not mix.
    std::fwrite(line.data(), 1, line.size(), stderr);
  };
}

}  // namespace flota
