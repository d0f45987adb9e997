#pragma once

#include <atomic>
#include <cstdint>

namespace flota {

// What a server counts about itself; statistics() tells it. Relaxed everywhere: numbers for people.
struct Counters {
  std::atomic<uint64_t> connections_open{0};
  std::atomic<uint64_t> connections_total{0};
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> errors{0};               // requests answered with an error
  std::atomic<uint64_t> refused_handshakes{0};   // wrong secret, wrong version, no hello, too slow
  std::atomic<uint64_t> malformed_frames{0};     // connections ended for bytes that make no sense
  std::atomic<uint64_t> refused_connections{0};  // over the limit, or sent away for another before a proof

  static void add(std::atomic<uint64_t>& counter, uint64_t amount = 1) {
    counter.fetch_add(amount, std::memory_order_relaxed);
  }
};

}  // namespace flota
