#include "client/client.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings/arrays.h"
#include "bindings/coordination.h"
#include "bindings/errors.h"
#include "bindings/pages.h"
#include "bindings/waiting.h"
#include "common/finite.h"

namespace nb = nanobind;
using Waits = nb::call_guard<flota::Waiting>;

namespace flota {
namespace {

std::chrono::milliseconds ms(int64_t time) { return std::chrono::milliseconds(time); }

// Holds a Python object for a call in the background, and lets go of it under the interpreter's lock. Requires: nothing
// in it leads to the client. Its last owner would be the thread that the client's end waits for.
Client::Keep keep_alive(nb::object object) {
  return Client::Keep(new nb::object(std::move(object)), [](void* held) {
    nb::gil_scoped_acquire gil;
    delete static_cast<nb::object*>(held);
  });
}

void bind_options(nb::module_& module) {
  nb::enum_<Transport>(module, "Transport")
      .value("auto", Transport::kAuto)
      .value("tcp", Transport::kTcp)
      .value("unix", Transport::kUnix)
      .value("shared_memory", Transport::kSharedMemory);
  nb::enum_<SplitMethod>(module, "SplitMethod")
      .value("RoundRobin", SplitMethod::kRoundRobin)
      .value("HashName", SplitMethod::kHashName);
  nb::class_<ClientOptions>(module, "ClientOptions")
      .def(nb::init<>())
      .def_rw("endpoints", &ClientOptions::endpoints)
      .def_rw("endpoints_file", &ClientOptions::endpoints_file)
      .def_rw("secret", &ClientOptions::secret)
      .def_rw("worker", &ClientOptions::worker)
      .def_rw("epoch", &ClientOptions::epoch)
      .def_rw("transport", &ClientOptions::transport)
      .def_rw("tls", &ClientOptions::tls)
      .def_rw("insecure", &ClientOptions::insecure)
      .def_rw("max_payload", &ClientOptions::max_payload)
      .def_rw("looks_on", &ClientOptions::looks_on);
  nb::class_<RemoteTable>(module, "RemoteTable")
      .def_ro("spec", &RemoteTable::spec)
      .def_ro("block_server", &RemoteTable::block_server);
  nb::class_<Pending>(module, "Pending")
      .def(
          "wait", [](Pending& self, int64_t time) { check(self.wait(Deadline::after(ms(time)))); }, Waits(),
          nb::arg("time_ms"))
      .def("done", &Pending::done);
}

// Adds each row of values to the row of `out` that is its place, in their order.
void sum_rows(uintptr_t places, size_t count, uintptr_t values, size_t dim, uintptr_t out, size_t rows) {
  auto place = array_at<const uint32_t>(places, count);
  auto value = array_at<const float>(values, count * dim);
  auto sums = array_at<float>(out, rows * dim);
  std::fill(sums.begin(), sums.end(), 0.0f);
  for (size_t i = 0; i < count; ++i) {
    float* sum = sums.data() + size_t{place[i]} * dim;
    for (size_t j = 0; j < dim; ++j) sum[j] += value[i * dim + j];
  }
}

// Whether all values at these addresses, so many each, are numbers and finite.
bool all_finite(const std::vector<std::pair<uintptr_t, size_t>>& parts) {
  nb::gil_scoped_release release;
  return std::all_of(parts.begin(), parts.end(), [](const auto& part) {
    return first_nonfinite(array_at<const float>(part.first, part.second).data(), part.second) == part.second;
  });
}

void bind_batch(nb::module_& module) {
  module.def("all_finite", &all_finite, nb::arg("parts"));
  module.def("sum_rows", &sum_rows, nb::call_guard<nb::gil_scoped_release>(), nb::arg("places"), nb::arg("count"),
             nb::arg("values"), nb::arg("dim"), nb::arg("out"), nb::arg("rows"));
  nb::class_<PushOptions>(module, "PushOptions")
      .def(
          "__init__",
          [](PushOptions* self, PushKind kind, float lr, float scale, uint64_t step, uint64_t group, uint32_t rank) {
            new (self) PushOptions{kind, lr, scale, step, group, rank};
          },
          nb::arg("kind"), nb::arg("lr"), nb::arg("scale"), nb::arg("step"), nb::arg("group") = 0, nb::arg("rank") = 0)
      .def_rw("lr", &PushOptions::lr);
  nb::class_<Batch>(module, "Batch")
      .def("__init__", [](Batch* self) { new (self) Batch(ShardMap::even(1)); })
      .def(
          "route",
          [](Batch& self, uintptr_t keys, size_t count, uintptr_t places) {
            self.route(array_at<const Key>(keys, count), array_at<uint32_t>(places, count));
          },
          nb::call_guard<nb::gil_scoped_release>(), nb::arg("keys"), nb::arg("count"), nb::arg("places"))
      .def(
          "copy_keys",
          [](const Batch& self, uintptr_t out) {
            std::memcpy(array_at<Key>(out, self.keys().size()).data(), self.keys().data(), self.keys().size_bytes());
          },
          nb::arg("out"))
      .def(
          "common",
          [](const Batch& self, const nb::bytes& others) {
            const std::span keys(reinterpret_cast<const Key*>(others.c_str()), others.size() / sizeof(Key));
            const std::vector<uint32_t> places = [&] {
              nb::gil_scoped_release release;
              return self.common(keys);
            }();
            std::vector<Key> found;
            for (uint32_t place : places) found.push_back(self.keys()[place]);
            return nb::make_tuple(column(std::span<const uint32_t>(places)), column(std::span<const Key>(found)));
          },
          nb::arg("others"), nb::sig("def common(self, others: bytes) -> tuple[bytes, bytes]"))
      .def("lower_versions", &Batch::lower_versions, nb::arg("other"))
      .def(
          "count",
          [](Batch& self, uintptr_t places, size_t count, uintptr_t shows, uintptr_t clicks) {
            self.count(array_at<const uint32_t>(places, count), reinterpret_cast<const float*>(shows),
                       reinterpret_cast<const float*>(clicks));
          },
          nb::arg("places"), nb::arg("count"), nb::arg("shows"), nb::arg("clicks"))
      .def(
          "add_counts",
          [](Batch& self, const Batch& other, uintptr_t places) {
            self.add_counts(other, array_at<const uint32_t>(places, other.keys().size()));
          },
          nb::arg("other"), nb::arg("places"))
      .def("__len__", [](const Batch& self) { return self.keys().size(); });
}

void bind_rows(nb::class_<Client>& client) {
  client
      .def(
          "pull",
          [](Client& self, const RemoteTable& table, uintptr_t keys, size_t count, uintptr_t out, bool create,
             int64_t time) {
            check(self.pull(table, array_at<const Key>(keys, count), array_at<float>(out, count * table.spec.dim),
                            create, ms(time)));
          },
          Waits())
      .def(
          "push",
          [](Client& self, const RemoteTable& table, uintptr_t keys, size_t count, uintptr_t values,
             const PushOptions& options, int64_t time) {
            check(self.push(table, array_at<const Key>(keys, count),
                            array_at<const float>(values, count * table.spec.dim), options, ms(time)));
          },
          Waits())
      .def("pull_async",
           [](Client& self, const RemoteTable& table, uintptr_t keys, size_t count, uintptr_t out, bool create,
              int64_t time, nb::object keep) {
             return self.pull_async(table, array_at<const Key>(keys, count),
                                    array_at<float>(out, count * table.spec.dim), create, ms(time),
                                    keep_alive(std::move(keep)));
           })
      .def("push_async",
           [](Client& self, const RemoteTable& table, uintptr_t keys, size_t count, uintptr_t values,
              const PushOptions& options, int64_t time, nb::object keep) {
             return self.push_async(table, array_at<const Key>(keys, count),
                                    array_at<const float>(values, count * table.spec.dim), options, ms(time),
                                    keep_alive(std::move(keep)));
           })
      .def("make_batch", [](const Client& self) { return std::make_shared<Batch>(self.make_batch()); })
      .def(
          "pull_batch",
          [](Client& self, const RemoteTable& table, Batch& batch, uintptr_t out, bool create, int64_t time) {
            check(
                self.pull(table, batch, array_at<float>(out, batch.keys().size() * table.spec.dim), create, ms(time)));
          },
          Waits())
      .def(
          "push_batch",
          [](Client& self, const RemoteTable& table, Batch& batch, uintptr_t values, const PushOptions& options,
             int64_t time) {
            check(self.push(table, batch, array_at<const float>(values, batch.keys().size() * table.spec.dim), options,
                            ms(time)));
          },
          Waits())
      .def("pull_batch_async",
           [](Client& self, const RemoteTable& table, std::shared_ptr<Batch> batch, uintptr_t out, bool create,
              int64_t time, nb::object keep) {
             auto rows = array_at<float>(out, batch->keys().size() * table.spec.dim);
             return self.pull_async(table, std::move(batch), rows, create, ms(time), keep_alive(std::move(keep)));
           })
      .def("push_batch_async", [](Client& self, const RemoteTable& table, std::shared_ptr<Batch> batch,
                                  uintptr_t values, const PushOptions& options, int64_t time, nb::object keep) {
        auto rows = array_at<const float>(values, batch->keys().size() * table.spec.dim);
        return self.push_async(table, std::move(batch), rows, options, ms(time), keep_alive(std::move(keep)));
      });
}

// A parameter for one of the dense calls: its table, the address and the number of its values, its learning rate, what
// they travel as, and the address of a version for each server, or 0.
using DensePart = std::tuple<const RemoteTable*, uintptr_t, size_t, float, Storage, uintptr_t>;

std::span<uint64_t> versions_at(const Client& client, uintptr_t address) {
  return address == 0 ? std::span<uint64_t>() : array_at<uint64_t>(address, client.servers());
}

std::vector<DensePull> dense_pulls(const Client& client, const std::vector<DensePart>& parts) {
  std::vector<DensePull> pulls;
  for (const auto& [table, out, count, lr, element, versions] : parts) {
    pulls.push_back({table, array_at<float>(out, count), element, versions_at(client, versions)});
  }
  return pulls;
}

std::vector<DensePush> dense_pushes(const Client& client, const std::vector<DensePart>& parts,
                                    const PushOptions& options) {
  std::vector<DensePush> pushes;
  for (const auto& [table, values, count, lr, element, versions] : parts) {
    const auto seen = versions_at(client, versions);
    pushes.push_back({table, array_at<const float>(values, count), options, element, {seen.begin(), seen.end()}});
    pushes.back().options.lr = lr;
  }
  return pushes;
}

void bind_dense(nb::class_<Client>& client) {
  client
      .def("pull_dense",
           [](Client& self, const std::vector<DensePart>& parts, int64_t time) {
             const auto pulls = dense_pulls(self, parts);
             Waiting waiting;
             check(self.pull_dense(pulls, ms(time)));
           })
      .def("push_dense",
           [](Client& self, const std::vector<DensePart>& parts, const PushOptions& options, int64_t time) {
             const auto pushes = dense_pushes(self, parts, options);
             Waiting waiting;
             check(self.push_dense(pushes, ms(time)));
           })
      .def("exchange_dense",  // gradients that all_finite() has looked at
           [](Client& self, const std::vector<DensePart>& push, const PushOptions& options,
              const std::vector<DensePart>& pull, int64_t time) {
             auto pushes = dense_pushes(self, push, options);
             for (DensePush& each : pushes) each.finite = true;
             const auto pulls = dense_pulls(self, pull);
             Waiting waiting;
             check(self.exchange_dense(pushes, pulls, ms(time)));
           })
      .def("pull_dense_async",
           [](Client& self, const std::vector<DensePart>& parts, int64_t time, nb::object keep) {
             return self.pull_dense_async(dense_pulls(self, parts), ms(time), keep_alive(std::move(keep)));
           })
      .def("push_dense_async", [](Client& self, const std::vector<DensePart>& parts, const PushOptions& options,
                                  int64_t time, nb::object keep) {
        return self.push_dense_async(dense_pushes(self, parts, options), ms(time), keep_alive(std::move(keep)));
      });
}

void bind_pages(nb::class_<Client>& client) {
  client
      .def(
          "export_pages",
          [](Client& self, const RemoteTable& table, const std::vector<std::pair<uint32_t, uint64_t>>& places,
             uint32_t max_rows, int64_t time, RowsOf part, uint64_t since) {
            std::vector<ExportFrom> from;
            for (const auto& [shard, cursor] : places) from.push_back({shard, cursor});
            auto pages = [&] {
              Waiting waiting;
              return take(self.export_pages(table, from, max_rows, ms(time), {part, since}));
            }();
            nb::list tuples;
            for (Client::Page& page : pages) {
              tuples.append(to_tuple(take(Rows::decode(page))));
              Client::Page().swap(page);  // its rows have been copied
            }
            return tuples;
          },
          nb::arg("table"), nb::arg("places"), nb::arg("max_rows"), nb::arg("time_ms"),
          nb::arg("part") = RowsOf::kTable, nb::arg("since") = 0,
          nb::sig("def export_pages(self, table: RemoteTable, places: list[tuple[int, int]], max_rows: int, "
                  "time_ms: int, part: RowsOf = ..., since: int = 0) -> list[" FLOTA_PAGE_TUPLE "]"))
      .def(
          "import_rows",
          [](Client& self, const RemoteTable& table, size_t count, uint32_t dim, uint32_t state_floats, uintptr_t keys,
             uintptr_t updates, uintptr_t last_seen, uintptr_t weights, uintptr_t state, int64_t time, RowsOf part) {
            const Rows rows =
                rows_at(table.id, count, dim, state_floats, keys, updates, last_seen, weights, state, part);
            check(self.import_rows(table, rows, ms(time)));
          },
          Waits(), nb::arg("table"), nb::arg("count"), nb::arg("dim"), nb::arg("state_floats"), nb::arg("keys"),
          nb::arg("updates"), nb::arg("last_seen"), nb::arg("weights"), nb::arg("state"), nb::arg("time_ms"),
          nb::arg("part") = RowsOf::kTable)
      .def(
          "era",
          [](Client& self, const RemoteTable& table, uint64_t begin, uint64_t mark, uint64_t keep_since, bool restore,
             std::vector<uint64_t> shrinks, int64_t time) {
            auto replies = [&] {
              Waiting waiting;
              return take(self.era(table, {0, begin, mark, keep_since, restore, shrinks}, ms(time)));
            }();
            nb::list servers;
            for (const EraReply& reply : replies) {
              servers.append(nb::make_tuple(reply.newest, reply.removed_since, reply.marks, reply.shrinks));
            }
            return servers;
          },
          nb::sig("def era(self, table: RemoteTable, begin: int, mark: int, keep_since: int, restore: bool, "
                  "shrinks: Sequence[int], time_ms: int) -> list[tuple[int, int, list[int], list[int]]]"))
      .def(
          "shrink",
          [](Client& self, const RemoteTable& table, uint64_t era, uint32_t max_age, float decay, double min_score,
             double min_norm, bool all, int64_t time) {
            return take(self.shrink(table, {era, max_age, decay, min_score, min_norm, all}, ms(time)));
          },
          Waits(), nb::arg("table"), nb::arg("era"), nb::arg("max_age"), nb::arg("decay"), nb::arg("min_score"),
          nb::arg("min_norm"), nb::arg("all"), nb::arg("time_ms"));
}

}  // namespace

void bind_client(nb::module_& module) {
  bind_options(module);
  bind_batch(module);
  nb::class_<Client> client(module, "Client");
  client
      .def_static(
          "connect",
          [](ClientOptions options, int64_t time) { return take(Client::connect(std::move(options), ms(time))); },
          Waits(), nb::arg("options"), nb::arg("time_ms"))
      .def(
          "create_sparse",
          [](Client& self, const TableSpec& spec, int64_t time) { return take(self.create_sparse(spec, ms(time))); },
          Waits())
      .def(
          "create_dense",
          [](Client& self, const TableSpec& spec, bool slice, uint64_t min_block, SplitMethod method, int64_t time) {
            return take(self.create_dense(spec, Slicing{slice, min_block, method}, ms(time)));
          },
          Waits())
      .def(
          "describe",
          [](Client& self, const std::string& name, int64_t time) {
            TableSummary summary = [&] {
              Waiting waiting;
              return take(self.describe(name, ms(time)));
            }();
            return nb::make_tuple(summary.table, summary.rows, summary.bytes);
          },
          nb::sig("def describe(self, name: str, time_ms: int) -> tuple[RemoteTable, int, int]"))
      .def(
          "gather",
          [](Client& self, const std::string& name, uint32_t rank, uint32_t world, const nb::bytes& brings,
             int64_t time) {
            auto bytes = std::as_bytes(std::span(brings.c_str(), brings.size()));
            auto all = [&] {
              Waiting waiting;
              return take(self.gather(name, rank, world, bytes, ms(time)));
            }();
            nb::list parts;
            for (const auto& part : all) parts.append(nb::bytes(part.data(), part.size()));
            return parts;
          },
          nb::sig("def gather(self, name: str, rank: int, world: int, brings: bytes, time_ms: int) -> list[bytes]"))
      .def(
          "finish_step",
          [](Client& self, const std::string& group, uint64_t step, uint64_t count, uint32_t rank, uint32_t world,
             double samples, bool leave, bool want_keys, int64_t time, const nb::bytes& position,
             const std::vector<uint32_t>& servers) {
            for (uint32_t server : servers) {
              if (server >= self.servers()) throw nb::value_error("there is no such server");
            }
            const auto bytes = std::as_bytes(std::span(position.c_str(), position.size()));
            const StepEnd end{group, step, count, rank, world, samples, leave, want_keys, bytes, servers};
            auto changed = [&] {
              Waiting waiting;
              return take(self.finish_step(end, ms(time)));
            }();
            nb::dict tables;
            for (const auto& [table, keys] : changed) tables[nb::int_(table)] = column(std::span<const Key>(keys));
            return tables;
          },
          nb::arg("group"), nb::arg("step"), nb::arg("count"), nb::arg("rank"), nb::arg("world"), nb::arg("samples"),
          nb::arg("leave"), nb::arg("want_keys"), nb::arg("time_ms"), nb::arg("position") = nb::bytes("", 0),
          nb::arg("servers") = std::vector<uint32_t>(),
          nb::sig("def finish_step(self, group: str, step: int, count: int, rank: int, world: int, samples: float, "
                  "leave: bool, want_keys: bool, time_ms: int, position: bytes = b'', servers: Sequence[int] = ()) -> "
                  "dict[int, bytes]"))
      .def(
          "changes",
          [](Client& self, const RemoteTable& table, uint32_t rank, std::vector<uint64_t> since, int64_t time) {
            auto keys = [&] {
              Waiting waiting;
              return take(self.changes(table, rank, since, ms(time)));
            }();
            return nb::make_tuple(column(std::span<const Key>(keys)), since);
          },
          nb::sig("def changes(self, table: RemoteTable, rank: int, since: Sequence[int], time_ms: int) -> "
                  "tuple[bytes, list[int]]"))
      .def(
          "advance",
          [](Client& self, const std::string& group, uint64_t step, uint64_t behind, uint32_t rank, uint32_t world,
             bool leave, int64_t time,
             bool rest) { return take(self.advance({group, step, behind, rank, world, leave, rest}, ms(time))); },
          Waits(), nb::arg("group"), nb::arg("step"), nb::arg("behind"), nb::arg("rank"), nb::arg("world"),
          nb::arg("leave"), nb::arg("time_ms"), nb::arg("rest") = false)
      .def(
          "statistics",
          [](Client& self, int64_t time) {
            auto all = [&] {
              Waiting waiting;
              return take(self.statistics(ms(time)));
            }();
            nb::list servers;
            for (const ServerStatistics& server : all) {
              nb::list values;
              for (const Statistic& value : server.values) {
                values.append(nb::make_tuple(value.table, value.name, value.value));
              }
              servers.append(nb::make_tuple(server.endpoint, values));
            }
            return servers;
          },
          nb::sig("def statistics(self, time_ms: int) -> list[tuple[str, list[tuple[str, str, int]]]]"))
      .def(
          "shutdown", [](Client& self, int server, int64_t time) { check(self.shutdown(server, ms(time))); }, Waits())
      .def("close", &Client::close, Waits())
      .def_prop_ro("worker", &Client::worker)
      .def_prop_ro("epoch", &Client::epoch)
      .def_prop_ro("servers", &Client::servers);
  bind_rows(client);
  bind_dense(client);
  bind_pages(client);
  bind_coordination(module, client);
  bind_rejoin(module, client);
  bind_team(module, client);
  bind_observe(module, client);
}

}  // namespace flota
