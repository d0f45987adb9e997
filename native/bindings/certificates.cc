#include "wire/certificates.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/errors.h"

namespace nb = nanobind;

namespace flota {

void bind_certificates(nb::module_& module) {
  nb::enum_<CertificateUse>(module, "CertificateUse")
      .value("server", CertificateUse::kServer)
      .value("client", CertificateUse::kClient);

  nb::class_<Certificate>(module, "Certificate")
      .def_ro("certificate", &Certificate::certificate)
      .def_ro("key", &Certificate::key);

  module.def(
      "make_authority", [](const std::string& name, int days) { return take(make_authority(name, days)); },
      nb::arg("name"), nb::arg("days"));
  module.def(
      "issue_certificate",
      [](const Certificate& authority, const std::string& name, const std::vector<std::string>& hosts,
         CertificateUse use, int days) { return take(issue_certificate(authority, name, hosts, use, days)); },
      nb::arg("authority"), nb::arg("name"), nb::arg("hosts"), nb::arg("use"), nb::arg("days"));
}

}  // namespace flota
