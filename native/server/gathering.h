#pragma once

#include "server/barriers.h"

namespace flota {

struct Barriers::Gathering {
  std::string name;
  uint64_t number = 0;
  bool counted = false;
  std::vector<uint64_t> calls;                  // by rank
  std::vector<std::vector<std::byte>> brought;  // the same

  void encode(Writer& out) const;
  static Result<Gathering> decode(std::span<const std::byte> payload);
};

}  // namespace flota
