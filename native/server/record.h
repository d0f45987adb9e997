#pragma once

#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "server/journal.h"
#include "wire/codec.h"
#include "wire/fields.h"

// What the parts of a server share that outlive its process. Each of them
//   - writes its changes to the journal that set_journal() was given, if any, before it makes them,
//   - freeze()s for a snapshot, and then can save() its whole state as records without taking a lock: it may run in a
//     forked child, whose locks are all held,
//   - replay()s its own records, changes and state alike, before anybody is served. What a record does not tell, time
//     above all, plays no part. A record that contradicts itself or the state is refused: kMalformed. Records lie on
//     multiples of eight bytes.
namespace flota {

// All of a part's mutexes: while it is held, nothing of that part changes.
struct Freeze {
  std::unique_lock<std::shared_mutex> shared;
  std::vector<std::unique_lock<std::mutex>> locks;
};

// One record, to a journal if there is one.
inline Result<void> write_record(Journal* journal, RecordKind kind, const Writer& record) {
  if (journal == nullptr) return {};
  return journal->write(kind, {record.bytes()});
}
template <class Message>
Result<void> write_message(Journal* journal, RecordKind kind, const Message& message) {
  if (journal == nullptr) return {};
  Writer record;
  message.encode(record);
  return write_record(journal, kind, record);
}

// The outcome of replaying a record: whatever is wrong, it is the record.
inline Result<void> replayed(const Result<void>& status, const char* what) {
  if (status) return {};
  return malformed(std::string("a record of ") + what + ": " + status.error().message);
}

inline Error unknown_record(RecordKind kind) {
  return malformed("kind " + std::to_string(static_cast<int>(kind)) + " is none of its records");
}

}  // namespace flota
