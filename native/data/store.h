#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "data/permutation.h"
#include "data/samples.h"

namespace flota {

// Samples kept in memory, and the order in which they are read. Shuffling moves no sample. Thread safety: one thread
// changes it at a time.
class SampleStore {
 public:
  explicit SampleStore(std::shared_ptr<const Layout> layout) : layout_(std::move(layout)) {}
  SampleStore(SampleStore&& other) noexcept : layout_(other.layout_) { swap(other); }
  SampleStore& operator=(SampleStore&& other) noexcept {
    SampleStore taken(std::move(other));
    swap(taken);
    return *this;
  }

  const Layout& layout() const { return *layout_; }
  const std::shared_ptr<const Layout>& shared_layout() const { return layout_; }
  size_t size() const { return size_; }
  size_t bytes() const;

  // Those that come later are read later. Throws std::invalid_argument if samples have another layout, and
  // std::length_error if they would be more than kMaxSamples. Of a row alone it requires that it has this layout.
  void append(const Samples& samples);
  void append(std::span<const std::byte> row);
  // Reads in another order, which depends on the order before and the seed only.
  void shuffle(uint64_t seed);
  // Reads its i-th sample as the order[i]-th that was appended. Requires: a permutation.
  void set_order(std::vector<uint32_t> order) { order_ = std::move(order); }
  // The rows at these places of the order.
  std::vector<const std::byte*> rows(size_t begin, size_t count) const;
  void clear();

  // The samples in the order in which they were appended, a block at a time, which is freed; null: there are no more.
  // Once it was called, only clear() makes the store one to append to and read again.
  std::unique_ptr<Samples> take_block();

  static constexpr size_t kMaxSamples = UINT32_MAX;

 private:
  static constexpr uint32_t kBlockBits = 12;

  void swap(SampleStore& other) noexcept;
  std::span<const std::byte> row(uint32_t number) const {
    return blocks_[number >> kBlockBits]->row(number & ((1u << kBlockBits) - 1));
  }

  std::shared_ptr<const Layout> layout_;
  std::vector<std::unique_ptr<Samples>> blocks_;  // all but the last of 2^kBlockBits samples
  std::vector<uint32_t> order_;                   // empty: as they were appended
  size_t size_ = 0;
  size_t taken_ = 0;  // blocks
};

// One worker's side of a shuffle of all workers' samples. Sample g of all (worker 0's first) gets the place
// Permutation(seed)(g); worker w reads the places from total * w / workers on. So each sample is with exactly one
// worker, workers have equal numbers, and the result does not depend on who was faster. What is sent is freed as it
// goes. Thread safety: one thread sends while another receives.
class GlobalShuffle {
 public:
  // `counts`: how many samples each worker has. The source is emptied.
  static Result<std::unique_ptr<GlobalShuffle>> make(SampleStore& source, std::vector<uint64_t> counts, uint32_t rank,
                                                     uint64_t seed);

  struct Letter {
    uint32_t to = 0;
    std::vector<std::byte> bytes;
  };
  // Letters to be sent, about `letter_bytes` each; the rest of them at the end. Empty: nothing is left.
  Result<std::vector<Letter>> next(size_t letter_bytes);
  // Takes a letter that another worker's next() made.
  Result<void> receive(std::span<const std::byte> letter);
  // Fills `out` with this worker's samples, in their new order; an error says how many are missing.
  Result<void> finish(SampleStore& out);

 private:
  GlobalShuffle(SampleStore source, std::vector<uint64_t> counts, uint32_t rank, uint64_t seed);

  uint64_t begin_of(uint64_t worker) const;
  Result<void> keep(uint64_t place, std::span<const std::byte> row);

  SampleStore source_;
  uint32_t rank_;
  uint32_t workers_;
  uint64_t total_ = 0;
  uint64_t next_ = 0;  // the number, of all, of the next sample to go
  Permutation permutation_;
  std::vector<std::vector<std::byte>> outgoing_;

  std::mutex mutex_;
  SampleStore kept_;
  std::vector<uint32_t> places_;  // of kept samples, counted from this worker's first
};

}  // namespace flota
