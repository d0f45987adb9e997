#include "data/store.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "common/random.h"

namespace flota {
namespace {

uint64_t sum(const std::vector<uint64_t>& counts) { return std::accumulate(counts.begin(), counts.end(), uint64_t{0}); }

}  // namespace

void SampleStore::swap(SampleStore& other) noexcept {
  std::swap(layout_, other.layout_);
  std::swap(blocks_, other.blocks_);
  std::swap(order_, other.order_);
  std::swap(size_, other.size_);
  std::swap(taken_, other.taken_);
}

size_t SampleStore::bytes() const {
  size_t total = order_.size() * sizeof(uint32_t);
  for (const auto& block : blocks_) {
    if (block) total += block->bytes();
  }
  return total;
}

void SampleStore::append(std::span<const std::byte> row) {
  if (size_ == kMaxSamples) throw std::length_error("more than 4 billion samples in memory");
  if (blocks_.empty() || blocks_.back()->size() == size_t{1} << kBlockBits) {
    blocks_.push_back(std::make_unique<Samples>(layout_));
  }
  blocks_.back()->append(row);
  if (!order_.empty()) order_.push_back(static_cast<uint32_t>(size_));
  ++size_;
}

void SampleStore::append(const Samples& samples) {
  if (samples.layout() != layout()) throw std::invalid_argument("samples of another layout than the store's");
  for (size_t i = 0; i < samples.size(); ++i) append(samples.row(i));
}

void SampleStore::shuffle(uint64_t seed) {
  if (order_.empty()) {
    order_.resize(size_);
    std::iota(order_.begin(), order_.end(), 0u);
  }
  const RowStream random(seed, size_);
  for (size_t i = order_.size(); i > 1; --i) {
    // The upper half of the product: without a division, and a bias below 2^-32.
    const auto place = static_cast<size_t>((random.at(i) >> 32) * i >> 32);
    std::swap(order_[i - 1], order_[place]);
  }
}

std::vector<const std::byte*> SampleStore::rows(size_t begin, size_t count) const {
  std::vector<const std::byte*> found(count);
  for (size_t i = 0; i < count; ++i) {
    found[i] = row(order_.empty() ? static_cast<uint32_t>(begin + i) : order_[begin + i]).data();
  }
  return found;
}

void SampleStore::clear() {
  blocks_.clear();
  blocks_.shrink_to_fit();
  order_ = {};
  size_ = taken_ = 0;
}

std::unique_ptr<Samples> SampleStore::take_block() {
  if (taken_ == blocks_.size()) return nullptr;
  return std::move(blocks_[taken_++]);
}

GlobalShuffle::GlobalShuffle(SampleStore source, std::vector<uint64_t> counts, uint32_t rank, uint64_t seed)
    : source_(std::move(source)),
      rank_(rank),
      workers_(static_cast<uint32_t>(counts.size())),
      total_(sum(counts)),
      permutation_(seed, total_),
      outgoing_(counts.size()),
      kept_(source_.shared_layout()) {
  next_ = std::accumulate(counts.begin(), counts.begin() + rank, uint64_t{0});
  places_.reserve(begin_of(rank + 1) - begin_of(rank));
}

Result<std::unique_ptr<GlobalShuffle>> GlobalShuffle::make(SampleStore& source, std::vector<uint64_t> counts,
                                                           uint32_t rank, uint64_t seed) {
  if (rank >= counts.size() || counts[rank] != source.size()) return invalid("a shuffle's counts are not the workers'");
  for (uint64_t count : counts) {
    if (count > SampleStore::kMaxSamples) return invalid("more than 4 billion samples for a worker");
  }
  SampleStore taken(source.shared_layout());
  std::swap(taken, source);
  return std::unique_ptr<GlobalShuffle>(new GlobalShuffle(std::move(taken), std::move(counts), rank, seed));
}

uint64_t GlobalShuffle::begin_of(uint64_t worker) const {
  // total * worker / workers without overflow.
  return total_ / workers_ * worker + total_ % workers_ * worker / workers_;
}

Result<void> GlobalShuffle::keep(uint64_t place, std::span<const std::byte> row) {
  std::lock_guard lock(mutex_);
  if (places_.size() == begin_of(rank_ + 1) - begin_of(rank_)) return invalid("more samples came than there are");
  kept_.append(row);
  places_.push_back(static_cast<uint32_t>(place - begin_of(rank_)));
  return {};
}

Result<std::vector<GlobalShuffle::Letter>> GlobalShuffle::next(size_t letter_bytes) {
  std::vector<Letter> ready;
  while (ready.empty()) {
    const std::unique_ptr<Samples> block = source_.take_block();
    if (!block) break;
    for (size_t i = 0; i < block->size(); ++i) {
      const uint64_t place = permutation_(next_++);
      const std::span<const std::byte> row = block->row(i);
      // A guess that rounding may make one too high or too low.
      auto to = static_cast<uint64_t>(static_cast<double>(place) / static_cast<double>(total_) * workers_);
      to = std::min<uint64_t>(to, workers_ - 1);
      while (place < begin_of(to)) --to;
      while (place >= begin_of(to + 1)) ++to;
      if (to == rank_) {
        FLOTA_TRY(keep(place, row));
        continue;
      }
      std::vector<std::byte>& bytes = outgoing_[to];
      const uint64_t head[2] = {place, row.size()};
      const auto* begin = reinterpret_cast<const std::byte*>(head);
      bytes.insert(bytes.end(), begin, begin + sizeof head);
      bytes.insert(bytes.end(), row.begin(), row.end());
      if (bytes.size() >= letter_bytes) ready.push_back({static_cast<uint32_t>(to), std::exchange(bytes, {})});
    }
  }
  if (!ready.empty()) return ready;
  for (uint32_t to = 0; to < workers_; ++to) {
    if (!outgoing_[to].empty()) ready.push_back({to, std::exchange(outgoing_[to], {})});
  }
  return ready;
}

Result<void> GlobalShuffle::receive(std::span<const std::byte> letter) {
  while (!letter.empty()) {
    uint64_t head[2] = {};
    if (letter.size() < sizeof head) return Error{ErrorCode::kMalformed, "a letter of a shuffle ends too soon"};
    std::memcpy(head, letter.data(), sizeof head);
    letter = letter.subspan(sizeof head);
    if (head[1] > letter.size() || head[1] == 0 || kept_.layout().row_bytes(letter.first(head[1])) != head[1]) {
      return Error{ErrorCode::kMalformed, "a letter of a shuffle holds a sample of another shape"};
    }
    if (head[0] < begin_of(rank_) || head[0] >= begin_of(rank_ + 1)) {
      return Error{ErrorCode::kMalformed, "a letter of a shuffle holds another worker's sample"};
    }
    FLOTA_TRY(keep(head[0], letter.first(head[1])));
    letter = letter.subspan(head[1]);
  }
  return {};
}

Result<void> GlobalShuffle::finish(SampleStore& out) {
  const uint64_t mine = begin_of(rank_ + 1) - begin_of(rank_);
  if (places_.size() != mine) {
    return invalid("a shuffle is not over: " + std::to_string(places_.size()) + " of " + std::to_string(mine) +
                   " samples came");
  }
  std::vector<uint32_t> order(mine, UINT32_MAX);
  for (uint32_t i = 0; i < mine; ++i) {
    if (order[places_[i]] != UINT32_MAX) return Error{ErrorCode::kMalformed, "a sample of a shuffle came twice"};
    order[places_[i]] = i;
  }
  places_ = {};
  kept_.set_order(std::move(order));
  out = std::move(kept_);
  return {};
}

}  // namespace flota
