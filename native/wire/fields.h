#pragma once

#include <string>

#include "common/result.h"
#include "wire/codec.h"

// Fields that not every value fits: what the decoders of messages share.
namespace flota {

inline Error malformed(const std::string& message) { return {ErrorCode::kMalformed, message}; }

// A byte that must be one of an enumeration's values 1 .. last.
template <class Enum>
Result<Enum> get_enum(Reader& in, Enum last, const char* what) {
  auto value = in.get<uint8_t>();
  if (in.ok() && (value < 1 || value > static_cast<uint8_t>(last))) {
    return malformed(std::string("unknown ") + what + " " + std::to_string(value));
  }
  return static_cast<Enum>(value);
}

inline Result<bool> get_bool(Reader& in, const char* what) {
  auto value = in.get<uint8_t>();
  if (value > 1) return malformed(std::string(what) + " is neither 0 nor 1");
  return value == 1;
}

inline Result<void> check_rank(uint32_t rank, uint32_t world) {
  if (world != 0 && world <= 1u << 20 && rank < world) return {};
  return invalid("a worker's rank must be below the number of workers, and that between 1 and 1,048,576");
}

// The same where a world of 0 says: the job's workers, whom the server knows.
inline Result<void> check_rank_or_team(uint32_t rank, uint32_t world) {
  return check_rank(rank, world == 0 ? 1u << 20 : world);
}

}  // namespace flota
