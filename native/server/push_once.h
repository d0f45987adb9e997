#pragma once

#include <string>

#include "server/service.h"

// What pushes to sparse and to dense tables share.
namespace flota {

inline Error nonfinite(const TableSpec& spec, const std::string& where) {
  return {ErrorCode::kNonFinite, "table '" + spec.name + "': the values for " + where +
                                     " hold a NaN or an infinity; nothing was applied (a table made with "
                                     "allow_nonfinite=True takes them)"};
}

// Whether the push waits for its group's step.
inline bool in_step(const PushHead& head) { return head.group != 0 && head.kind == PushKind::kGradient; }

// Everything that can be refused was refused before, but by the step it belongs to; from here on the push is written
// down, and then applied whole. `apply` is for one that is applied at once, `hold` makes the copy of one that waits for
// its step.
template <class Apply, class Hold>
Result<Writer> Service::apply_once(MessageKind kind, Payload payload, const PushHead& head, HostedTable& table,
                                   Apply apply, Hold hold) {
  const PushId id{head.worker, head.epoch, head.sequence, head.oldest};
  const auto passing = pass();
  FLOTA_ASSIGN(auto verdict, ledger_.begin(id, io_deadline()));
  if (verdict == Ledger::Verdict::kApply) {
    Result<void> status;
    bool written = false;
    const auto write = [&] {
      auto done = record(kind, payload);
      written = static_cast<bool>(done);
      return done;
    };
    try {
      if (in_step(head)) {
        HeldPush held = hold();
        held.incarnation = head.epoch;
        status = steps_.hold(head.group, head.rank, head.step, std::move(held), write);
      } else {
        // The versions of changes that others ask for must be the same again when the records are replayed.
        std::unique_lock<std::mutex> ordered;
        if (head.group != 0 && journal_ != nullptr) ordered = std::unique_lock(table.ordered);
        status = write();
        if (status) apply(Step{head.lr, head.scale, head.step});
      }
    } catch (...) {
      // Memory has ended. What is written down is applied when the server is recovered, and is in part by now.
      ledger_.finish(id, written);
      throw;
    }
    ledger_.finish(id, static_cast<bool>(status));
    FLOTA_TRY(status);
    if (!in_step(head)) table.count_push(head.count, head.seen);
  }
  Writer out;
  PushReply{verdict == Ledger::Verdict::kApply}.encode(out);
  return out;
}

}  // namespace flota
