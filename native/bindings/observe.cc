// What people see of a job.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/coordination.h"
#include "bindings/errors.h"
#include "bindings/waiting.h"
#include "common/histogram.h"

namespace nb = nanobind;

namespace flota {
namespace {

nb::bytes bytes_of(const std::vector<std::byte>& bytes) { return nb::bytes(bytes.data(), bytes.size()); }

void bind_replies(nb::module_& module) {
  nb::class_<PostReply>(module, "PostReply")
      .def_ro("wish_version", &PostReply::wish_version)
      .def_prop_ro("wish", [](const PostReply& self) { return bytes_of(self.wish); });
  nb::class_<RequestCounts>(module, "RequestCounts")
      .def_prop_ro("kind", [](const RequestCounts& self) { return std::string(to_string(self.kind)); })
      .def_ro("count", &RequestCounts::count)
      .def_ro("nanoseconds", &RequestCounts::nanoseconds)
      .def_ro("bytes_in", &RequestCounts::bytes_in)
      .def_ro("bytes_out", &RequestCounts::bytes_out)
      .def_ro("buckets", &RequestCounts::buckets);
  nb::class_<TableHeat>(module, "TableHeat")
      .def_ro("table", &TableHeat::table)
      .def_ro("sampled", &TableHeat::sampled)
      .def_ro("shards", &TableHeat::shards)
      .def_prop_ro("keys", [](const TableHeat& self) {
        std::vector<std::pair<int64_t, uint64_t>> keys;
        for (const auto& [key, count] : self.keys) keys.emplace_back(static_cast<int64_t>(key), count);
        return keys;
      });
  nb::class_<Note>(module, "Note")
      .def_ro("topic", &Note::topic)
      .def_ro("rank", &Note::rank)
      .def_ro("version", &Note::version)
      .def_ro("age_ms", &Note::age_ms)
      .def_prop_ro("bytes", [](const Note& self) { return bytes_of(self.bytes); });
  nb::class_<ObserveReply>(module, "ObserveReply")
      .def_prop_ro("statistics",
                   [](const ObserveReply& self) {
                     std::vector<std::tuple<std::string, std::string, uint64_t>> values;
                     for (const Statistic& one : self.statistics) values.emplace_back(one.table, one.name, one.value);
                     return values;
                   })
      .def_ro("requests", &ObserveReply::requests)
      .def_ro("heat", &ObserveReply::heat)
      .def_ro("notes", &ObserveReply::notes);
}

}  // namespace

void bind_observe(nb::module_& module, nb::class_<Client>& client) {
  nb::enum_<Topic>(module, "Topic")
      .value("state", Topic::kState)
      .value("trace", Topic::kTrace)
      .value("wish", Topic::kWish);
  module.attr("OBSERVE_HEAT") = Observe::kHeat;
  module.attr("OBSERVE_STATES") = Observe::kStates;
  module.attr("OBSERVE_TRACES") = Observe::kTraces;
  // Seconds at which the buckets of RequestCounts begin; the last has no end.
  module.def("bucket_begins", [] {
    std::vector<double> begins;
    for (size_t bucket = 0; bucket < Histogram::kBuckets; ++bucket) {
      begins.push_back(static_cast<double>(Histogram::begin_of(bucket)) * 1e-9);
    }
    return begins;
  });
  bind_replies(module);
  client.def(
      "post",
      [](Client& self, Topic topic, uint32_t rank, const nb::bytes& note, uint64_t known, int64_t time) {
        const auto bytes = std::as_bytes(std::span(note.c_str(), note.size()));
        Waiting waiting;
        return take(self.post({topic, rank, known, bytes}, std::chrono::milliseconds(time)));
      },
      nb::arg("topic"), nb::arg("rank"), nb::arg("note"), nb::arg("known"), nb::arg("time_ms"));
  client.def(
      "observe",
      [](Client& self, uint32_t server, uint32_t parts, uint64_t since, int64_t time) {
        return take(self.observe(server, {parts, since}, std::chrono::milliseconds(time)));
      },
      nb::call_guard<Waiting>(), nb::arg("server"), nb::arg("parts"), nb::arg("since"), nb::arg("time_ms"));
}

}  // namespace flota
