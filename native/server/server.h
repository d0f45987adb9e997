#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/log_line.h"
#include "common/result.h"
#include "server/durability.h"
#include "server/service.h"
#include "wire/handshake.h"
#include "wire/socket.h"
#include "wire/tls.h"

namespace flota {

struct ServerOptions {
  std::string endpoint = "127.0.0.1:0";  // port 0: a free one
  std::string secret;
  TlsOptions tls;         // for TCP; local sockets need none
  bool insecure = false;  // without TLS, other hosts may reach it all the same
  uint32_t index = 0;     // this server among `count`
  uint32_t count = 1;
  bool local_sockets = true;  // Unix sockets and shared memory for peers on this host
  uint64_t max_payload = kDefaultMaxPayload;
  size_t max_connections = 4096;
  size_t max_handshakes = 64;  // peers that have not proven the secret yet; one more sends one of them away
  std::chrono::milliseconds handshake_time{5000};
  std::chrono::milliseconds io_time{60000};
  DurableOptions durable;  // what outlives the process, and where
  LogLine log;             // one line an event; none: silent
};

// Listens and gives every connection a thread of its own: blocking reads and writes are the fastest way there is on
// Linux for tens of busy peers, and a wait in a barrier needs no state machine (docs/decisions/0003).
class Server {
 public:
  // Checks the options, and recovers what a durable folder holds. Nobody can come yet: this is the time to restore
  // tables, unless they were recovered.
  static Result<std::unique_ptr<Server>> make(ServerOptions options);
  Result<void> listen();
  // make() and listen() in one.
  static Result<std::unique_ptr<Server>> start(ServerOptions options);
  ~Server();

  // Restores tables; see Service. Requires: listen() has not been called.
  Result<void> restore_table(const TableSpec& spec);
  Result<uint64_t> restore_rows(const Rows& rows);
  Result<void> restore_parameter(WholeParameter parameter);
  Result<void> restore_history(const std::string& table, uint64_t era, uint64_t mark, std::vector<uint64_t> shrinks);
  Result<void> restore_leases(const LeaseStates& states);
  Result<void> restored(uint64_t checkpoint, uint64_t step);

  // Whether the durable folder held anything: what this server was before it died.
  bool recovered() const { return durability_ && durability_->recovered(); }

  uint16_t port() const { return port_; }
  std::string endpoint() const { return Endpoint{host_, port_}.to_string(); }
  // What `observe` answers a peer, without one: for whoever shows this server from within. Any thread.
  ObserveReply observe(uint32_t parts) const { return service_->observe({parts, 0}); }
  // Peers that have proven the secret and are connected.
  size_t connections();

  // Waits until a client asked for the end, or stop() was called, at most until the deadline: false if neither.
  bool wait(Deadline deadline);
  // Ends all connections and threads. Any thread but a connection's own; a second call does nothing.
  void stop();

 private:
  struct Session;

  explicit Server(ServerOptions options);
  void accept_loop();
  void admit(Fd fd, bool local);
  Reach reach() const;
  void send_a_stranger_away();
  bool no_stranger_any_more(Session& session, bool proven);
  void serve(Session& session);
  Result<std::unique_ptr<Stream>> greet(Session& session);
  void refuse(std::atomic<uint64_t>& counter, const Error& error);
  void reap();
  Result<void> check_restores();
  std::unique_ptr<Service> make_service();
  Result<void> recover();
  Result<void> check_not_listening() const;

  ServerOptions options_;
  std::shared_ptr<TlsContext> tls_;
  uint64_t incarnation_;
  std::string host_;
  uint16_t port_ = 0;
  Fd tcp_;
  Fd unix_;
  Fd wake_;
  std::unique_ptr<Service> service_;
  bool filled_ = false;                     // with what a checkpoint held
  std::unique_ptr<Durability> durability_;  // null: nothing outlives the process

  std::mutex mutex_;
  std::condition_variable changed_;
  bool asked_to_stop_ = false;
  bool stopped_ = false;
  std::list<std::unique_ptr<Session>> sessions_;
  std::vector<Session*> strangers_;   // those that have not proven the secret yet, oldest first
  size_t proven_ = 0;                 // those that have
  std::atomic<size_t> answering_{0};  // requests that are being answered
  std::mutex log_mutex_;
  Deadline::Clock::time_point next_line_{};
  uint64_t unsaid_ = 0;  // refusals since the last line
  std::thread acceptor_;
};

}  // namespace flota
