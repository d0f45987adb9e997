#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <list>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "testing.h"
#include "wire/socket.h"

namespace flota::testing {

// A TCP relay that cuts each connection after a seeded random number of bytes, counted over both directions: in the
// middle of a handshake, a request or a reply. The peers see a network that breaks.
class Relay {
 public:
  Relay(uint16_t target, uint64_t seed, size_t fewest, size_t most)
      : target_(target), random_(seed), fewest_(fewest), most_(most) {
    auto listening = value_of(listen_tcp({"127.0.0.1", 0}));
    listener_ = std::move(listening.first);
    port_ = listening.second;
    acceptor_ = std::thread([this] { accept_loop(); });
  }
  ~Relay() {
    stopping_.store(true);
    acceptor_.join();
    for (auto& thread : connections_) thread.join();
  }

  std::string endpoint() const { return "127.0.0.1:" + std::to_string(port_); }
  size_t cuts() const { return cuts_.load(); }
  // From here on connections live.
  void heal() { healed_.store(true); }

 private:
  void accept_loop() {
    while (!stopping_.load()) {
      auto client = accept_from(listener_, Deadline::after(milliseconds(10)));
      if (!client) continue;
      auto server = connect_tcp({"127.0.0.1", target_}, patience());
      if (!server) continue;
      const size_t budget = fewest_ + random_() % (most_ - fewest_ + 1);
      connections_.emplace_back([this, budget, client = std::move(*client), server = std::move(*server)]() mutable {
        carry(client.get(), server.get(), budget);
      });
    }
  }

  void carry(int client, int server, size_t budget) {
    fcntl(server, F_SETFL, fcntl(server, F_GETFL) & ~O_NONBLOCK);
    std::vector<char> buffer(16384);
    while (!stopping_.load()) {
      pollfd fds[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
      if (poll(fds, 2, 10) <= 0) continue;
      for (int side = 0; side < 2; ++side) {
        if (fds[side].revents == 0) continue;
        const size_t most = healed_.load() ? buffer.size() : std::min(buffer.size(), budget);
        const ssize_t count = recv(fds[side].fd, buffer.data(), most, 0);
        if (count <= 0) return;  // the peer left; closing both tells the other
        if (send(fds[1 - side].fd, buffer.data(), static_cast<size_t>(count), MSG_NOSIGNAL) != count) return;
        if (healed_.load()) continue;
        budget -= static_cast<size_t>(count);
        if (budget > 0) continue;
        cuts_.fetch_add(1);
        return;
      }
    }
  }

  uint16_t target_;
  uint16_t port_ = 0;
  std::mt19937_64 random_;
  size_t fewest_;
  size_t most_;
  Fd listener_;
  std::thread acceptor_;
  std::list<std::thread> connections_;  // the acceptor's own, until it has ended
  std::atomic<bool> stopping_{false};
  std::atomic<bool> healed_{false};
  std::atomic<size_t> cuts_{0};
};

}  // namespace flota::testing
