#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "server/journal.h"
#include "testing.h"

// What the tests of state share that outlives a process.
namespace flota::testing {

struct Record {
  RecordKind kind{};
  std::vector<std::byte> bytes;
};
using Records = std::vector<Record>;

// Keeps records in memory, until the disk is full.
class MemoryJournal : public Journal {
 public:
  bool full = false;
  Records records;

  Result<void> write(RecordKind kind, std::initializer_list<std::span<const std::byte>> parts) override {
    std::lock_guard lock(mutex_);
    if (full) return Error{ErrorCode::kNoSpace, "the disk is full"};
    Record record{kind, {}};
    for (auto part : parts) record.bytes.insert(record.bytes.end(), part.begin(), part.end());
    records.push_back(std::move(record));
    return {};
  }

 private:
  std::mutex mutex_;
};

template <class Part>
void replay_all(Part& part, const Records& records) {
  for (const Record& record : records) value_of(part.replay(record.kind, record.bytes));
}

template <class Part>
Records saved(Part& part) {
  MemoryJournal snapshot;
  const auto frozen = part.freeze();
  value_of(part.save(snapshot));
  return snapshot.records;
}

// A part of a server that dies now and then: what it was is made again from its journal alone, or from a snapshot and
// the journal after it, by turns.
template <class Part>
class Mortal {
 public:
  Mortal() { restart(); }
  Part& operator*() { return *part_; }
  Part* operator->() { return part_.get(); }
  MemoryJournal& journal() { return journal_; }

  void take_snapshot() {
    snapshot_ = saved(*part_);
    journal_.records.clear();
  }
  void restart() {
    auto part = std::make_unique<Part>();
    replay_all(*part, snapshot_);
    replay_all(*part, journal_.records);
    part->set_journal(&journal_);
    part_ = std::move(part);
  }

 private:
  MemoryJournal journal_;
  Records snapshot_;
  std::unique_ptr<Part> part_;
};

struct Snapshot {
  Records records;
  size_t at = 0;  // how many records of the journal came before it
};

// Runs work(0) .. work(threads - 1) at the same time, and takes snapshots all the while.
template <class Part, class Work>
std::vector<Snapshot> snapshots_during(Part& part, const MemoryJournal& journal, size_t threads, Work work) {
  constexpr size_t kMost = 50;
  std::vector<Snapshot> taken;
  std::atomic<bool> working{true};
  std::thread all([&] {
    in_threads(threads, work);
    working = false;
  });
  for (size_t count = 0; working; ++count) {
    {
      MemoryJournal out;
      const auto frozen = part.freeze();
      value_of(part.save(out));
      taken.resize(std::min(count + 1, kMost));
      taken[count % kMost] = {std::move(out.records), journal.records.size()};
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // or nobody else would get to work
  }
  all.join();
  return taken;
}

// What a snapshot and the journal after it make.
template <class Part>
void replay_after(Part& part, const Snapshot& snapshot, const Records& journal) {
  replay_all(part, snapshot.records);
  replay_all(part, {journal.begin() + static_cast<ptrdiff_t>(snapshot.at), journal.end()});
}

// Whether each record is refused that was cut anywhere, or has too much, after those that come before it.
template <class Part>
bool refuses_cut_records(const Records& records) {
  for (size_t i = 0; i < records.size(); ++i) {
    const auto refused = [&](std::vector<std::byte> bytes) {
      Part part;
      for (size_t before = 0; before < i; ++before) value_of(part.replay(records[before].kind, records[before].bytes));
      bytes.shrink_to_fit();  // so that who reads beyond its end is caught
      return code_of(part.replay(records[i].kind, bytes)) == ErrorCode::kMalformed;
    };
    const std::vector<std::byte>& whole = records[i].bytes;
    for (size_t size = 0; size < whole.size(); ++size) {
      if (!refused({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)})) return false;
    }
    std::vector<std::byte> longer = whole;
    longer.resize(whole.size() + 8);
    if (!refused(std::move(longer))) return false;
  }
  return true;
}

// Replays the records with bytes changed at random, and lets `use` do with the part what it likes: nothing may break.
template <class Part, class Use>
void replay_damaged(const Records& records, std::mt19937_64& random, Use use, int times = 2000) {
  for (int time = 0; time < times; ++time) {
    Part part;
    const size_t damaged = random() % records.size();
    for (size_t i = 0; i < records.size(); ++i) {
      std::vector<std::byte> bytes = records[i].bytes;
      for (size_t flips = i == damaged ? 1 + random() % 4 : 0; flips > 0 && !bytes.empty(); --flips) {
        bytes[random() % bytes.size()] = static_cast<std::byte>(random() % 3 == 0 ? random() : random() % 4);
      }
      if (!part.replay(records[i].kind, bytes)) break;
    }
    use(part);
  }
}

}  // namespace flota::testing
