// Who the job's workers are.
#include <nanobind/stl/string.h>

#include "bindings/coordination.h"
#include "bindings/errors.h"
#include "bindings/waiting.h"

namespace nb = nanobind;

namespace flota {

void bind_team(nb::module_& module, nb::class_<Client>& client) {
  nb::enum_<TeamPart>(module, "TeamPart")
      .value("ask", TeamPart::kAsk)
      .value("join", TeamPart::kJoin)
      .value("scale", TeamPart::kScale)
      .value("leave", TeamPart::kLeave)
      .value("pin", TeamPart::kPin);
  nb::enum_<TeamMode>(module, "TeamMode")
      .value("synchronous", TeamMode::kSync)
      .value("asynchronous", TeamMode::kAsync)
      .value("geo", TeamMode::kGeo);
  nb::class_<TeamReply>(module, "TeamReply")
      .def_ro("mode", &TeamReply::mode)
      .def_ro("late", &TeamReply::late)
      .def_ro("workers", &TeamReply::workers)
      .def_ro("wanted", &TeamReply::wanted)
      .def_ro("version", &TeamReply::version);
  client.def(
      "team",
      [](Client& self, TeamPart part, int64_t time, uint32_t rank, uint32_t workers, TeamMode mode,
         const std::string& why) {
        return take(self.team({part, mode, rank, workers, 0, why}, std::chrono::milliseconds(time)));
      },
      nb::call_guard<Waiting>(), nb::arg("part"), nb::arg("time_ms"), nb::arg("rank") = 0, nb::arg("workers") = 0,
      nb::arg("mode") = TeamMode::kAsync, nb::arg("why") = "");
}

}  // namespace flota
