// A worker that may have been started before: what it is told.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/coordination.h"
#include "bindings/errors.h"
#include "bindings/waiting.h"
#include "client/client.h"

namespace nb = nanobind;

namespace flota {
namespace {

std::chrono::milliseconds ms(int64_t time) { return std::chrono::milliseconds(time); }

}  // namespace

void bind_rejoin(nb::module_& module, nb::class_<Client>& client) {
  nb::class_<Finished>(module, "Finished")
      .def_ro("group", &Finished::group)
      .def_ro("step", &Finished::step)
      .def_ro("count", &Finished::count)
      .def_ro("samples", &Finished::samples)
      .def_ro("leave", &Finished::leave)
      .def_prop_ro("position",
                   [](const Finished& self) { return nb::bytes(self.position.data(), self.position.size()); })
      .def_ro("pending", &Finished::pending);
  nb::class_<Rejoined>(module, "Rejoined")
      .def_ro("starts", &Rejoined::starts)
      .def_ro("steps", &Rejoined::steps)
      .def_prop_ro("position",
                   [](const Rejoined& self) { return nb::bytes(self.position.data(), self.position.size()); })
      .def_ro("last", &Rejoined::last)
      .def_ro("passed", &Rejoined::passed);
  client
      .def(
          "rejoin",
          [](Client& self, uint32_t rank, uint32_t world, int64_t time) {
            return take(self.rejoin(rank, world, ms(time)));
          },
          nb::call_guard<Waiting>(), nb::arg("rank"), nb::arg("world"), nb::arg("time_ms"))
      .def(
          "check_finishes",
          [](Client& self, uint32_t rank, uint32_t world, int64_t time) {
            check(self.check_finishes(rank, world, ms(time)));
          },
          nb::call_guard<Waiting>(), nb::arg("rank"), nb::arg("world"), nb::arg("time_ms"))
      .def(
          "note_steps",
          [](Client& self, uint64_t steps, uint64_t reached, uint64_t target, int64_t time, const nb::bytes& position) {
            const std::span bytes(static_cast<const std::byte*>(position.data()), position.size());
            Waiting waiting;
            check(self.note_steps(steps, reached, target, ms(time), bytes));
          },
          nb::arg("steps"), nb::arg("reached"), nb::arg("target"), nb::arg("time_ms"),
          nb::arg("position") = nb::bytes(""))
      .def(
          "announce",
          [](Client& self, uint32_t rank, uint32_t world, int64_t time) {
            return take(self.announce(rank, world, ms(time)));
          },
          nb::call_guard<Waiting>(), nb::arg("rank"), nb::arg("world"), nb::arg("time_ms"))
      .def(
          "on_their_way",
          [](Client& self, int64_t within, int64_t time) {
            const auto all = [&] {
              Waiting waiting;
              return take(self.on_their_way(ms(within), ms(time)));
            }();
            nb::list found;
            for (const OnItsWay& one : all) found.append(nb::make_tuple(one.rank, one.reached, one.target));
            return found;
          },
          nb::arg("within_ms"), nb::arg("time_ms"),
          nb::sig("def on_their_way(self, within_ms: int, time_ms: int) -> list[tuple[int, int, int]]"))
      .def_prop_rw("arrivals", &Client::arrivals, &Client::set_arrivals);
}

}  // namespace flota
