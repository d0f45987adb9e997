#pragma once

#include <boost/system/result.hpp>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace flota {

// Why an expected failure happened. The values travel on the wire (docs/wire_format.md) and become Python exception
// classes in one place (native/bindings/errors.cc), so they are only ever appended to.
enum class ErrorCode : uint32_t {
  kInvalidArgument = 1,  // the caller's values: wrong shape, unknown option, refused range
  kUnknownTable = 2,     // no table of that name or id on the server
  kTableMismatch = 3,    // the table exists with other settings
  kNonFinite = 4,        // NaN or infinity where the table refuses them
  kMalformed = 5,        // bytes that are not a frame or message of this protocol
  kTooLarge = 6,         // a length beyond the limit
  kVersion = 7,          // the peer speaks another protocol version
  kUnauthenticated = 8,  // the peer did not prove the job's secret
  kDeadline = 9,         // the wait's deadline passed
  kUnavailable = 10,     // the peer is not there, or went away
  kStaleEpoch = 11,      // a newer incarnation of this worker is already known
  kShuttingDown = 12,    // the server is stopping
  kWrongServer = 13,     // the peer is not the server this client expects there
  kSystem = 14,          // the operating system refused: ports, memory, files
  kCancelled = 15,       // this side closed while waiting
  kBusy = 16,            // a server limit (connections, handshakes) is reached
  kNoSpace = 17,         // a server cannot write down what it is asked to do: its disk is full
  kLost = 18,            // a server lacks what it has answered for: its machine died
};

// Whether a number from the wire or the disk is one of them.
constexpr bool is_error_code(uint64_t code) { return code >= 1 && code <= static_cast<uint64_t>(ErrorCode::kLost); }

struct Error {
  ErrorCode code;
  std::string message;

  // The same error seen from further out: "context: message".
  Error with(const std::string& context) const { return {code, context + ": " + message}; }
};

[[noreturn]] inline void throw_exception_from_error(const Error& error, const boost::source_location&) {
  throw std::logic_error("value() on a failed Result: " + error.message);
}

// Expected failures are values; a broken invariant aborts (common/check.h).
template <class T>
using Result = boost::system::result<T, Error>;

inline Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

}  // namespace flota

// Returns the error of `expression` from the enclosing function, if it failed.
#define FLOTA_TRY(expression)                                                              \
  do {                                                                                     \
    if (auto flota_try_ = (expression); !flota_try_) return std::move(flota_try_).error(); \
  } while (0)

#define FLOTA_CONCAT_(a, b) a##b
#define FLOTA_CONCAT(a, b) FLOTA_CONCAT_(a, b)
// Declares `name` as the value of `expression`, or returns its error.
#define FLOTA_ASSIGN(name, expression) FLOTA_ASSIGN_(FLOTA_CONCAT(flota_result_, __LINE__), name, expression)
#define FLOTA_ASSIGN_(temporary, name, expression)     \
  auto temporary = (expression);                       \
  if (!temporary) return std::move(temporary).error(); \
  name = std::move(*temporary)
