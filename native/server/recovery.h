#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/log_line.h"
#include "common/result.h"
#include "durable/folder.h"
#include "server/service.h"

namespace flota {

// What a folder of redo logs and snapshots was brought back to, and where its log goes on.
struct Recovered {
  std::unique_ptr<Service> service;
  uint64_t folder = 0;      // FileHead::folder; 0: there was no file yet
  uint64_t snapshot = 0;    // the generation it began with; 0: none, with nothing
  uint64_t generation = 0;  // of the newest log; 0: there is none
  bool ended = false;       // which was ended: the next record belongs into the next one
  uint64_t end = 0;         // bytes of that log that hold whole records
  uint64_t log_records = 0;
  uint64_t log_bytes = 0;  // of all logs since the snapshot
  uint64_t bytes = 0;      // read, of all files
  uint64_t records = 0;
};

struct RecoveryOptions {
  uint32_t index = 0;  // of the server that the folder must belong to, among `count`
  uint32_t count = 1;
  bool before_damage = false;                         // a damaged log is used up to its damage, and put aside
  std::function<std::unique_ptr<Service>()> service;  // makes an empty one
  LogLine say;
};

// Reads the newest snapshot and the logs after it; where that snapshot is damaged, the one before and more logs, which
// gives the same. A log that ends in the middle of a record ends before it: nobody was answered for that one. Damage
// anywhere else is an error that names it; nothing is changed then.
Result<Recovered> recover(Folder& folder, const RecoveryOptions& options);

// One file's records into a service. Rows of a snapshot are put in place by several threads. `ended`: its last record
// says that it is whole. kMalformed: the file is damaged; the service is of no use then.
Result<void> replay_records(RecordReader& reader, Service& service, bool* ended);

}  // namespace flota
