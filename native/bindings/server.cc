#include "server/server.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <cstdio>

#include "bindings/errors.h"

namespace nb = nanobind;
using Release = nb::call_guard<nb::gil_scoped_release>;

namespace flota {

void bind_server(nb::module_& module) {
  nb::class_<TlsOptions>(module, "TlsOptions")
      .def(nb::init<>())
      .def_rw("certificate", &TlsOptions::certificate)
      .def_rw("key", &TlsOptions::key)
      .def_rw("authority", &TlsOptions::authority)
      .def_rw("check_host", &TlsOptions::check_host);

  nb::class_<ServerOptions>(module, "ServerOptions")
      .def(nb::init<>())
      .def_rw("endpoint", &ServerOptions::endpoint)
      .def_rw("secret", &ServerOptions::secret)
      .def_rw("tls", &ServerOptions::tls)
      .def_rw("index", &ServerOptions::index)
      .def_rw("count", &ServerOptions::count)
      .def_rw("local_sockets", &ServerOptions::local_sockets)
      .def_rw("max_payload", &ServerOptions::max_payload)
      .def_rw("max_connections", &ServerOptions::max_connections)
      .def_rw("max_handshakes", &ServerOptions::max_handshakes)
      .def_prop_rw(
          "handshake_ms", [](const ServerOptions& self) { return self.handshake_time.count(); },
          [](ServerOptions& self, int64_t time) { self.handshake_time = std::chrono::milliseconds(time); })
      .def_prop_rw(
          "io_ms", [](const ServerOptions& self) { return self.io_time.count(); },
          [](ServerOptions& self, int64_t time) { self.io_time = std::chrono::milliseconds(time); });

  nb::class_<Server>(module, "Server")
      .def_static(
          "start",
          [](ServerOptions options) {
            uint32_t index = options.index;
            options.log = [index](const std::string& line) {
              std::fprintf(stderr, "flota server %u: %s\n", index, line.c_str());
            };
            return take(Server::start(std::move(options)));
          },
          Release(), nb::arg("options"))
      .def_prop_ro("port", &Server::port)
      .def_prop_ro("endpoint", &Server::endpoint)
      .def(
          "wait",
          [](Server& self, int64_t time) { return self.wait(Deadline::after(std::chrono::milliseconds(time))); },
          Release(), nb::arg("time_ms"))
      .def("stop", &Server::stop, Release());
}

}  // namespace flota
