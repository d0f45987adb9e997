#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "common/hash.h"
#include "server/record.h"

namespace flota {

// Which rows of a table the other workers have changed: what a worker in Geo mode must take over. Nothing is kept for
// each worker; one asks from the version on that it knows, and may ask again. Costs are those of the rows that have
// changed, whatever the number of workers. Thread safety: any thread.
class Changes {
 public:
  // Requires: the rows are changed already, and no key stands twice.
  void note(uint32_t rank, std::span<const Key> keys);

  struct Page {
    std::vector<Key> keys;
    uint64_t version = 0;  // where the next page begins, or, when done, what to ask from next time
    bool done = true;
  };
  // Keys that workers other than `rank` have changed after version `since`, each once; about `most` of them, more only
  // if they were changed at once. `page` is `since` at first, and then the version of the page before.
  Page others(uint32_t rank, uint64_t since, uint64_t page, size_t most) const;

  // As in server/record.h. A push's own record tells what it changes here, so there is state only; it names its table.
  Freeze freeze();
  Result<void> save(Journal& out, uint64_t table) const;
  static Result<uint64_t> table_of(std::span<const std::byte> payload);
  Result<void> replay(RecordKind kind, std::span<const std::byte> payload);

 private:
  // Who changed a key last, and when anybody else did.
  struct Last {
    uint64_t version = 0;
    uint64_t other = 0;
    uint32_t rank = 0;
  };
  struct Chunk {
    uint64_t version = 0;
    std::vector<Key> keys;
  };

  void compact();
  Result<void> replay_keys(std::span<const std::byte> payload);

  mutable std::mutex mutex_;
  uint64_t version_ = 0;
  boost::unordered_flat_map<Key, Last> last_;
  std::deque<Chunk> log_;  // a key that was changed again later stands there also, until compact()
  size_t logged_ = 0;
};

}  // namespace flota
