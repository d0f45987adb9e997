#include "server/server.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings/coordination.h"
#include "bindings/errors.h"
#include "bindings/log_lines.h"
#include "bindings/pages.h"
#include "wire/frame.h"

namespace nb = nanobind;
using Release = nb::call_guard<nb::gil_scoped_release>;

namespace flota {
namespace {

// What a server is told, and how it speaks.
struct SpokenOptions : ServerOptions {
  LogOptions lines;
};

ServerOptions logging(SpokenOptions options) {
  options.log = log_lines(options.lines, options.index);
  return options;
}

}  // namespace

void bind_server(nb::module_& module) {
  module.attr("PROTOCOL_VERSION") = kProtocolVersion;
  nb::class_<TlsOptions>(module, "TlsOptions")
      .def(nb::init<>())
      .def_rw("certificate", &TlsOptions::certificate)
      .def_rw("key", &TlsOptions::key)
      .def_rw("authority", &TlsOptions::authority)
      .def_rw("check_host", &TlsOptions::check_host);

  nb::class_<DurableOptions>(module, "DurableOptions")
      .def(nb::init<>())
      .def_rw("folder", &DurableOptions::folder)
      .def_rw("sync", &DurableOptions::sync)
      .def_rw("snapshot_bytes", &DurableOptions::snapshot_bytes)
      .def_prop_rw(
          "snapshot_ms", [](const DurableOptions& self) { return self.snapshot_time.count(); },
          [](DurableOptions& self, int64_t time) { self.snapshot_time = std::chrono::milliseconds(time); })
      .def_rw("before_damage", &DurableOptions::before_damage);

  bind_log_lines(module);
  nb::class_<SpokenOptions>(module, "ServerOptions")
      .def(nb::init<>())
      .def_rw("endpoint", &ServerOptions::endpoint)
      .def_rw("secret", &ServerOptions::secret)
      .def_rw("tls", &ServerOptions::tls)
      .def_rw("insecure", &ServerOptions::insecure)
      .def_rw("index", &ServerOptions::index)
      .def_rw("count", &ServerOptions::count)
      .def_rw("local_sockets", &ServerOptions::local_sockets)
      .def_rw("durable", &ServerOptions::durable)
      .def_rw("max_payload", &ServerOptions::max_payload)
      .def_rw("max_connections", &ServerOptions::max_connections)
      .def_rw("max_handshakes", &ServerOptions::max_handshakes)
      .def_prop_rw(
          "log_level", [](const SpokenOptions& self) { return self.lines.level; },
          [](SpokenOptions& self, LogLevel level) { self.lines.level = level; })
      .def_prop_rw(
          "log_json", [](const SpokenOptions& self) { return self.lines.json; },
          [](SpokenOptions& self, bool json) { self.lines.json = json; })
      .def_prop_rw(
          "handshake_ms", [](const SpokenOptions& self) { return self.handshake_time.count(); },
          [](SpokenOptions& self, int64_t time) { self.handshake_time = std::chrono::milliseconds(time); })
      .def_prop_rw(
          "io_ms", [](const SpokenOptions& self) { return self.io_time.count(); },
          [](SpokenOptions& self, int64_t time) { self.io_time = std::chrono::milliseconds(time); });

  nb::class_<Server>(module, "Server")
      .def_static(
          "make", [](SpokenOptions options) { return take(Server::make(logging(std::move(options)))); }, Release(),
          nb::arg("options"))
      .def(
          "listen", [](Server& self) { check(self.listen()); }, Release())
      .def_static(
          "start", [](SpokenOptions options) { return take(Server::start(logging(std::move(options)))); }, Release(),
          nb::arg("options"))
      .def("restore_table", [](Server& self, const TableSpec& spec) { check(self.restore_table(spec)); })
      .def(
          "restore_rows",
          [](Server& self, const std::string& table, size_t count, uint32_t dim, uint32_t state_floats, uintptr_t keys,
             uintptr_t updates, uintptr_t last_seen, uintptr_t weights, uintptr_t state, RowsOf part) {
            return take(self.restore_rows(rows_at(Registry::id_of(table), count, dim, state_floats, keys, updates,
                                                  last_seen, weights, state, part)));
          },
          Release(), nb::arg("table"), nb::arg("count"), nb::arg("dim"), nb::arg("state_floats"), nb::arg("keys"),
          nb::arg("updates"), nb::arg("last_seen"), nb::arg("weights"), nb::arg("state"),
          nb::arg("part") = RowsOf::kTable)
      .def("restore_history",
           [](Server& self, const std::string& table, uint64_t era, uint64_t mark, std::vector<uint64_t> shrinks) {
             check(self.restore_history(table, era, mark, std::move(shrinks)));
           })
      .def(
          "restore_parameter",
          [](Server& self, const TableSpec& spec, uintptr_t weights, size_t count, uintptr_t state, size_t state_floats,
             uint64_t updates, uint64_t last_seen) {
            auto values = array_at<const float>(weights, count);
            auto slots = array_at<const float>(state, state_floats);
            check(self.restore_parameter(
                {spec, {values.begin(), values.end()}, {slots.begin(), slots.end()}, updates, last_seen}));
          },
          Release())
      .def(
          "restore_leases",
          [](Server& self, const LeaseStateTuples& states) { check(self.restore_leases(states_of(states))); },
          nb::arg("states"), nb::sig("def restore_leases(self, states: " FLOTA_LEASE_STATES_GIVEN ") -> None"))
      .def("restored", [](Server& self, uint64_t checkpoint, uint64_t step) { check(self.restored(checkpoint, step)); })
      .def_prop_ro("recovered", &Server::recovered)
      .def_prop_ro("port", &Server::port)
      .def_prop_ro("endpoint", &Server::endpoint)
      .def_prop_ro("connections", &Server::connections)
      .def(
          "observe", [](const Server& self, uint32_t parts) { return self.observe(parts); }, Release(),
          nb::arg("parts"))
      .def(
          "wait",
          [](Server& self, int64_t time) { return self.wait(Deadline::after(std::chrono::milliseconds(time))); },
          Release(), nb::arg("time_ms"))
      .def("stop", &Server::stop, Release());
}

}  // namespace flota
