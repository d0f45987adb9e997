#pragma once

#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "common/deadline.h"
#include "common/result.h"
#include "common/spec.h"
#include "server/changes.h"
#include "server/heat.h"
#include "table/dense_table.h"
#include "table/sparse_table.h"

namespace flota {

// What became of a sparse table over time.
struct TableHistory {
  std::mutex mutex;
  std::vector<uint64_t> marks;    // of the saves that it has passed and that deltas may go on from
  std::vector<uint64_t> shrinks;  // the eras that began when it was shrunk by age
  uint64_t last_removed = 0;      // how many rows went then
};

// A table on this server, with what was done to it. One of sparse and dense is there.
struct HostedTable {
  explicit HostedTable(const TableSpec& table_spec);

  TableSpec spec;
  std::unique_ptr<SparseTable> sparse;
  std::unique_ptr<DenseTable> dense;
  Changes changes;  // of a sparse table, by workers in Geo mode
  TableHistory history;
  Heat heat;
  std::atomic<uint64_t> pulls{0};
  std::atomic<uint64_t> pushes{0};
  std::atomic<uint64_t> rows_pulled{0};
  std::atomic<uint64_t> rows_pushed{0};
  // Of pushes that told what they were computed from: how many others had come since.
  std::atomic<uint64_t> staleness_count{0};
  std::atomic<uint64_t> staleness_sum{0};
  std::atomic<uint64_t> staleness_max{0};
  bool restored = false;  // from a checkpoint, before the server listened
  std::mutex ordered;     // where changes must be made in the order in which they are written down
  std::mutex made_mutex;
  std::vector<Key> made;                        // rows that pulls have made and that could not be written down yet
  std::atomic<bool> made_enough{false};         // so many of those that pulls make no more
  Deadline::Clock::time_point write_made_at{};  // not before

  // What a pull tells: it goes up with whatever changes the table, after the change. 0: dense, and some block was never
  // written to.
  uint64_t version() const;

  // After a push of so many rows or blocks was applied. `seen`: the version that it was computed from, or
  // PushHead::kNoVersion.
  void count_push(uint64_t count, uint64_t seen);

  uint64_t rows() const { return sparse ? sparse->rows() : dense->elements(); }
  size_t bytes() const { return sparse ? sparse->bytes() : dense->bytes(); }
};

// A dense parameter of a checkpoint. How it is cut into blocks, and which of them are this server's, the workers say
// when they create the table: another number of servers, or another strategy, cuts it otherwise.
struct WholeParameter {
  TableSpec spec;              // without blocks
  std::vector<float> weights;  // spec.size()
  std::vector<float> state;    // slot after slot, spec.size() floats each; none: as before the first update
  uint64_t updates = 0;
  uint64_t last_seen = 0;
};

// The server's tables. A table's id follows from its name, so it is the same on every server and after a restart.
// Thread safety: any thread.
class Registry {
 public:
  static uint64_t id_of(const std::string& name);

  // Makes the table, or finds it when it is there with the same settings (`created` says which).
  Result<std::shared_ptr<HostedTable>> create(const TableSpec& spec, bool* created);
  // Keeps a parameter until a table of its name is created, which then begins with it; its version shows that it is
  // filled. Requires: weights and state of the right sizes.
  Result<void> keep(WholeParameter parameter);
  // Names of the parameters that no worker has asked for yet.
  std::vector<std::string> kept() const;
  bool knows(const std::string& name) const { return find(name).has_value(); }
  Result<std::shared_ptr<HostedTable>> find(uint64_t id) const;
  Result<std::shared_ptr<HostedTable>> find(const std::string& name) const;
  std::vector<std::shared_ptr<HostedTable>> all() const;
  // Both kinds one after another, without a lock. Requires: nobody creates or keeps meanwhile.
  template <class UseTable, class UseKept>
  Result<void> each(UseTable use_table, UseKept use_kept) const {
    for (const auto& [id, table] : tables_) FLOTA_TRY(use_table(id, *table));
    for (const auto& [name, parameter] : kept_) FLOTA_TRY(use_kept(parameter));
    return {};
  }

 private:
  static constexpr size_t kMaxTables = 65536;

  mutable std::shared_mutex mutex_;
  boost::unordered_flat_map<uint64_t, std::shared_ptr<HostedTable>> tables_;
  std::map<std::string, WholeParameter> kept_;
};

}  // namespace flota
