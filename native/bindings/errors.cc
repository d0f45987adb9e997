#include "bindings/errors.h"

#include <array>
#include <exception>

namespace nb = nanobind;

namespace flota {
namespace {

struct Name {
  ErrorCode code;
  const char* exception;
};

constexpr std::array<Name, 16> kNames = {{
    {ErrorCode::kInvalidArgument, "InvalidArgument"},
    {ErrorCode::kUnknownTable, "UnknownTable"},
    {ErrorCode::kTableMismatch, "TableMismatch"},
    {ErrorCode::kNonFinite, "NonFiniteValues"},
    {ErrorCode::kMalformed, "ProtocolError"},
    {ErrorCode::kTooLarge, "TooLarge"},
    {ErrorCode::kVersion, "VersionMismatch"},
    {ErrorCode::kUnauthenticated, "AuthenticationFailed"},
    {ErrorCode::kDeadline, "DeadlineExceeded"},
    {ErrorCode::kUnavailable, "ServerUnavailable"},
    {ErrorCode::kStaleEpoch, "StaleEpoch"},
    {ErrorCode::kShuttingDown, "ServerUnavailable"},
    {ErrorCode::kWrongServer, "WrongServer"},
    {ErrorCode::kSystem, "SystemFailure"},
    {ErrorCode::kCancelled, "ClientClosed"},
    {ErrorCode::kBusy, "ServerBusy"},
}};

void raise_failure(const Error& error) {
  const char* name = "FlotaError";
  for (const Name& candidate : kNames) {
    if (candidate.code == error.code) name = candidate.exception;
  }
  nb::object exception = nb::module_::import_("flota.errors").attr(name);
  PyErr_SetString(exception.ptr(), error.message.c_str());
}

}  // namespace

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Failure& failure) {
      raise_failure(failure.error);
    }
  });
}

}  // namespace flota
