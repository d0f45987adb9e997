#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <vector>

#include "common/histogram.h"
#include "wire/frame.h"
#include "wire/observe_messages.h"

namespace flota {

// How many requests of each kind, how large, and of pulls and pushes how long they took: the others wait for people.
// Relaxed everywhere, in as many copies as threads are likely to be at it, so that these do not pass a cache line to
// and fro. Thread safety: any thread.
class Requests {
 public:
  void add(MessageKind kind, std::chrono::nanoseconds time, uint64_t bytes_in, uint64_t bytes_out) {
    Stripe& stripe = stripes_[stripe_of_thread()];
    Kind& counts = stripe.kinds[static_cast<size_t>(kind) % kKinds];
    const auto nanoseconds = static_cast<uint64_t>(time.count());
    add(counts.count, 1);
    add(counts.nanoseconds, nanoseconds);
    add(counts.bytes_in, bytes_in);
    add(counts.bytes_out, bytes_out);
    if (const size_t timed = timed_as(kind); timed < kTimed) {
      add(stripe.buckets[timed][Histogram::bucket_of(nanoseconds)], 1);
    }
  }

  // Those kinds of which there was any.
  std::vector<RequestCounts> counts() const {
    std::vector<RequestCounts> found;
    for (size_t kind = 0; kind < kKinds; ++kind) {
      RequestCounts sum;
      sum.kind = static_cast<MessageKind>(kind);
      for (const Stripe& stripe : stripes_) {
        const Kind& counts = stripe.kinds[kind];
        sum.count += counts.count.load(std::memory_order_relaxed);
        sum.nanoseconds += counts.nanoseconds.load(std::memory_order_relaxed);
        sum.bytes_in += counts.bytes_in.load(std::memory_order_relaxed);
        sum.bytes_out += counts.bytes_out.load(std::memory_order_relaxed);
      }
      if (sum.count == 0) continue;
      if (const size_t timed = timed_as(sum.kind); timed < kTimed) {
        for (size_t bucket = 0; bucket < Histogram::kBuckets; ++bucket) {
          uint64_t count = 0;
          for (const Stripe& stripe : stripes_) count += stripe.buckets[timed][bucket].load(std::memory_order_relaxed);
          if (count != 0) sum.buckets.emplace_back(static_cast<uint32_t>(bucket), count);
        }
      }
      found.push_back(std::move(sum));
    }
    return found;
  }

 private:
  static constexpr size_t kKinds = 32;
  static constexpr size_t kTimed = 4;
  static constexpr size_t kStripes = 8;
  static_assert(static_cast<size_t>(MessageKind::kObserve) < kKinds);

  struct Kind {
    std::atomic<uint64_t> count{0};
    std::atomic<uint64_t> nanoseconds{0};
    std::atomic<uint64_t> bytes_in{0};
    std::atomic<uint64_t> bytes_out{0};
  };
  struct alignas(64) Stripe {
    std::array<Kind, kKinds> kinds;
    std::array<std::array<std::atomic<uint64_t>, Histogram::kBuckets>, kTimed> buckets{};
  };

  static void add(std::atomic<uint64_t>& counter, uint64_t amount) {
    counter.fetch_add(amount, std::memory_order_relaxed);
  }
  static size_t timed_as(MessageKind kind) {
    switch (kind) {
      case MessageKind::kPull:
        return 0;
      case MessageKind::kPush:
        return 1;
      case MessageKind::kPullDense:
        return 2;
      case MessageKind::kPushDense:
        return 3;
      default:
        return kTimed;
    }
  }
  static size_t stripe_of_thread() {
    static std::atomic<size_t> next{0};
    thread_local const size_t stripe = next.fetch_add(1, std::memory_order_relaxed) % kStripes;
    return stripe;
  }

  std::array<Stripe, kStripes> stripes_;
};

}  // namespace flota
