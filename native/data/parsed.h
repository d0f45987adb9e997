#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flota {

// A line that is not what it should be.
struct Fault {
  size_t line = 0;  // of the text that was parsed, counted from 0
  std::string what;
};

// What became of a text's lines: samples, but for those with faults.
struct Parsed {
  static constexpr size_t kMostTold = 8;

  size_t lines = 0;  // that were looked at
  size_t bad = 0;
  std::vector<Fault> faults = {};  // the first of them

  void add(size_t line, std::string what) {
    ++bad;
    if (faults.size() < kMostTold) faults.push_back({line, std::move(what)});
  }
};

enum class BadLines : uint8_t {
  kStop = 0,  // nothing after the first is looked at
  kSkip = 1,
};

}  // namespace flota
