#include "server/row_loaders.h"

#include <algorithm>
#include <new>
#include <stdexcept>

namespace flota {
namespace {

// More of them wait for memory.
constexpr unsigned kMostLoaders = 8;

}  // namespace

RowLoaders::RowLoaders(Service& service, uint64_t most_bytes) : service_(service), most_bytes_(most_bytes) {}

Result<void> RowLoaders::load(std::span<const std::byte> payload) {
  FLOTA_ASSIGN(const uint64_t part, service_.rows_part(payload));
  if (loaders_.empty()) {
    // With the first rows: a log has none.
    const unsigned count = std::clamp(std::thread::hardware_concurrency(), 1u, kMostLoaders);
    for (unsigned i = 0; i < count; ++i) {
      loaders_.push_back(std::make_unique<Loader>());
      loaders_.back()->thread = std::thread([this, &loader = *loaders_.back()] { work(loader); });
    }
  }
  Loader& loader = *loaders_[part % loaders_.size()];
  std::unique_lock lock(loader.mutex);
  loader.changed.wait(lock, [&] { return loader.waiting.size() < kMostWaiting || !loader.status; });
  FLOTA_TRY(loader.status);
  std::vector<std::byte> bytes;
  if (!loader.spare.empty()) {
    bytes = std::move(loader.spare.back());
    loader.spare.pop_back();
  }
  lock.unlock();
  bytes.assign(payload.begin(), payload.end());
  lock.lock();
  loader.waiting.push_back(std::move(bytes));
  lock.unlock();
  loader.changed.notify_all();
  return {};
}

void RowLoaders::work(Loader& loader) {
  std::unique_lock lock(loader.mutex);
  for (;;) {
    loader.changed.wait(lock, [&] { return !loader.waiting.empty() || loader.over; });
    if (loader.waiting.empty()) return;
    std::vector<std::byte> payload = std::move(loader.waiting.front());
    loader.waiting.pop_front();
    const bool good = loader.status.has_value();
    lock.unlock();
    Result<void> status;
    try {
      if (good) status = service_.replay(RecordKind::kRows, payload, most_bytes_);
    } catch (const std::bad_alloc&) {
      status = Error{ErrorCode::kSystem, "there is not enough memory for the rows of the snapshot"};
    } catch (const std::length_error& error) {
      status = Error{ErrorCode::kTooLarge, error.what()};
    }
    lock.lock();
    if (!status) loader.status = status;
    loader.spare.push_back(std::move(payload));
    loader.changed.notify_all();
  }
}

Result<void> RowLoaders::finish() {
  Result<void> status;
  for (const auto& loader : loaders_) {
    {
      std::lock_guard lock(loader->mutex);
      loader->over = true;
    }
    loader->changed.notify_all();
    loader->thread.join();
    if (!loader->status) status = loader->status;
  }
  loaders_.clear();
  return status;
}

}  // namespace flota
