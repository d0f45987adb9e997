#include "bindings/errors.h"

#include <array>
#include <exception>
#include <memory>
#include <thread>

#include "bindings/waiting.h"
#include "common/deadline.h"

namespace nb = nanobind;

namespace flota {
namespace {

// A failed Result on its way to Python.
struct Failure {
  Error error;
};

// What a signal handler raised, on its way from the wait it ended to the call's end.
thread_local std::unique_ptr<nb::python_error> raised;

struct Name {
  ErrorCode code;
  const char* exception;
};

constexpr std::array<Name, 18> kNames = {{
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
    {ErrorCode::kNoSpace, "DiskFull"},
    {ErrorCode::kLost, "StateLost"},
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

bool Waiting::interrupted() {
  if (ending.load() || raised) return true;  // told once, and meant for all that the call waits for
  nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0) return false;
  raised = std::make_unique<nb::python_error>();
  return true;
}

void Waiting::end_all() {
  const nb::gil_scoped_release release;
  const Deadline patience = Deadline::after(std::chrono::seconds(2));
  ending.store(true);
  while (count.load() != 0 && !patience.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

void raise_error(const Error& error) {
  if (raised) {
    nb::python_error signal = std::move(*raised);
    raised.reset();
    throw signal;
  }
  throw Failure{error};
}

void bind_errors(nb::module_& module) {
  module.def("end_waits", &Waiting::end_all, "The process ends: so do all waits of other threads.");
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Failure& failure) {
      raise_failure(failure.error);
    }
  });
}

}  // namespace flota
