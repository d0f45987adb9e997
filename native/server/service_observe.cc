// What a server tells of itself, and workers of themselves, for people.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

#include "server/service.h"

namespace flota {
namespace {

constexpr size_t kHotKeys = 32;
constexpr size_t kEnoughNotes = size_t{8} << 20;  // bytes of them in one answer, about

// Of this process; 0 where the kernel does not say.
uint64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long size = 0;
  unsigned long long resident = 0;
  const int read = std::fscanf(file, "%llu %llu", &size, &resident);
  std::fclose(file);
  return read == 2 ? resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

uint64_t processor_ms() {
  rusage used{};
  if (::getrusage(RUSAGE_SELF, &used) != 0) return 0;
  auto ms = [](const timeval& time) {
    return static_cast<uint64_t>(time.tv_sec) * 1000 + static_cast<uint64_t>(time.tv_usec) / 1000;
  };
  return ms(used.ru_utime) + ms(used.ru_stime);
}

}  // namespace

std::vector<Statistic> Service::values() const {
  std::vector<Statistic> values;
  auto add = [&](const std::string& table, const char* name, uint64_t value) {
    values.push_back({table, name, value});
  };
  const auto uptime = std::chrono::duration_cast<std::chrono::milliseconds>(Deadline::Clock::now() - began_);
  add("", "uptime_ms", static_cast<uint64_t>(uptime.count()));
  add("", "memory_bytes", resident_bytes());
  add("", "cpu_ms", processor_ms());
  add("", "max_payload", max_payload_);
  add("", "connections_open", counters_.connections_open);
  add("", "connections_total", counters_.connections_total);
  add("", "requests", counters_.requests);
  add("", "errors", counters_.errors);
  add("", "refused_handshakes", counters_.refused_handshakes);
  add("", "refused_connections", counters_.refused_connections);
  add("", "malformed_frames", counters_.malformed_frames);
  add("", "duplicate_pushes", ledger_.duplicates());
  add("", "workers_seen", ledger_.workers());
  add("", "leases_granted", leases_.counts().granted);
  add("", "leases_expired", leases_.counts().expired);
  add("", "mail_bytes", mailboxes_.bytes());
  add("", "checkpoint", checkpoint_);
  add("", "checkpoint_step", checkpoint_step_);
  if (report_) report_([&](const char* name, uint64_t value) { add("", name, value); });
  for (const std::string& name : registry_.kept()) add(name, "restored", 1);
  for (const auto& table : registry_.all()) {
    const std::string& name = table->spec.name;
    add(name, table->sparse ? "rows" : "elements", table->rows());
    add(name, "bytes", table->bytes());
    if (table->sparse && !table->spec.admission.admits_all()) {
      add(name, "waiting", table->sparse->waiting());
      add(name, "waiting_forgotten", table->sparse->forgotten());
    }
    add(name, "pulls", table->pulls);
    add(name, "pushes", table->pushes);
    add(name, table->sparse ? "rows_pulled" : "elements_pulled", table->rows_pulled);
    add(name, table->sparse ? "rows_pushed" : "blocks_pushed", table->rows_pushed);
    add(name, "staleness_count", table->staleness_count);
    add(name, "staleness_sum", table->staleness_sum);
    add(name, "staleness_max", table->staleness_max);
    add(name, "restored", table->restored ? 1 : 0);
  }
  return values;
}

Result<Writer> Service::statistics(Payload payload) {
  if (!payload.empty()) return Error{ErrorCode::kMalformed, "a statistics request has no payload"};
  Writer out;
  StatisticsReply{values()}.encode(out);
  return out;
}

Result<Writer> Service::post(Payload payload) {
  FLOTA_ASSIGN(auto message, Post::decode(payload));
  FLOTA_ASSIGN(auto reply, board_.post(message));
  Writer out;
  reply.encode(out);
  return out;
}

Result<Writer> Service::observe_for(Payload payload) {
  FLOTA_ASSIGN(auto message, Observe::decode(payload));
  Writer out;
  observe(message).encode(out);
  return out;
}

ObserveReply Service::observe(const Observe& message) const {
  ObserveReply reply;
  reply.statistics = values();
  reply.requests = requests_.counts();
  if ((message.parts & Observe::kHeat) != 0) {
    for (const auto& table : registry_.all()) {
      if (!table->sparse) continue;
      TableHeat heat = table->heat.look(kHotKeys);
      heat.table = table->spec.name;
      reply.heat.push_back(std::move(heat));
    }
  }
  reply.notes = board_.notes(message.parts, message.since, std::min<size_t>(kEnoughNotes, max_payload_ / 4));
  return reply;
}

}  // namespace flota
