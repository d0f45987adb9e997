#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "server/record.h"
#include "wire/messages.h"
#include "wire/rejoin_messages.h"

namespace flota {

// The last step that each worker has finished, whatever became of its group: where it goes on if it is started again.
// Steps notes them under the lock of the group, in the order in which they count. Thread safety: any thread.
class Finishes {
 public:
  struct Finish {
    std::string group;
    uint64_t step = 0;
    uint64_t count = 0;
    uint32_t world = 0;
    double samples = 0;
    bool leave = false;
    std::vector<std::byte> position;
    uint64_t ordinal = 0;
    std::vector<uint64_t> pushes;
  };

  void note(const FinishStep& message);
  // How many finishes there have been of it.
  uint64_t ordinal_of(uint32_t rank) const;
  // An empty group: none.
  Finish of(uint32_t rank) const;

  // As in server/record.h. Steps' own records tell what changes here, so there is state only.
  Freeze freeze();
  Result<void> save(Journal& out) const;
  Result<void> replay(RecordKind kind, std::span<const std::byte> payload);

 private:
  mutable std::mutex mutex_;
  std::map<uint32_t, Finish> ranks_;
};

}  // namespace flota
