#include "server/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "server/strangers.h"
#include "wire/address.h"
#include "wire/shared_memory.h"

namespace flota {
namespace {

// How long the end of a server waits for answers that are on their way.
constexpr std::chrono::milliseconds kLastAnswers{1000};

// All refusals are counted; a flood of them must not become a flood of lines.
constexpr std::chrono::seconds kBetweenLines{1};

constexpr size_t kMostKept = size_t{8} << 20;  // bytes of a request, for the next one

// A connection takes up to five descriptors, and the usual limit is 1,024. What the hard limit does not allow is
// refused when it comes to that.
void raise_descriptor_limit(size_t connections) {
  constexpr rlim_t kOthers = 256;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, 5 * connections + kOthers);
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

// One connection and its thread.
struct Server::Session {
  bool local = false;
  std::string source;                    // source_of() the peer
  bool sent_away = false;                // under the server's mutex_: before it proved the secret, to make room
  std::unique_ptr<SocketStream> socket;  // until the handshake takes it over
  Fd handle;                             // a second handle of the same socket: ends the connection from any thread,
                                         // whatever stream has been built on it meanwhile
  std::atomic<bool> finished{false};
  std::thread thread;

  void close() { shutdown(handle.get(), SHUT_RDWR); }
};

Server::Server(ServerOptions options)
    : options_(std::move(options)), incarnation_(random_number()), service_(make_service()) {}

std::unique_ptr<Service> Server::make_service() {
  return std::make_unique<Service>(options_.io_time, options_.max_payload, [this] {
    {
      std::lock_guard lock(mutex_);
      asked_to_stop_ = true;
    }
    changed_.notify_all();
  });
}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  FLOTA_ASSIGN(auto server, make(std::move(options)));
  FLOTA_TRY(server->listen());
  return server;
}

Result<std::unique_ptr<Server>> Server::make(ServerOptions options) {
  FLOTA_TRY(check_secret(options.secret));
  if (options.count == 0 || options.index >= options.count) {
    return invalid("server index " + std::to_string(options.index) + " is not below the number of servers, " +
                   std::to_string(options.count));
  }
  if (options.max_payload < kMinPayload) {
    return invalid("max_payload must be at least " + std::to_string(kMinPayload) + " bytes");
  }
  FLOTA_ASSIGN(Endpoint endpoint, Endpoint::parse(options.endpoint));
  std::unique_ptr<Server> server(new Server(std::move(options)));
  if (server->options_.tls.enabled()) {
    FLOTA_ASSIGN(server->tls_, TlsContext::server(server->options_.tls));
  }
  FLOTA_TRY(check_reach(endpoint, server->reach()));
  raise_descriptor_limit(server->options_.max_connections);
  server->wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!server->wake_) return system_error("eventfd");
  if (!server->options_.durable.folder.empty()) FLOTA_TRY(server->recover());
  return server;
}

Result<void> Server::recover() {
  FLOTA_ASSIGN(durability_, Durability::open(options_.durable, {options_.index, options_.count}, options_.log));
  FLOTA_ASSIGN(service_, durability_->recover([this] { return make_service(); }));
  return {};
}

Result<void> Server::listen() {
  FLOTA_TRY(check_not_listening());
  FLOTA_ASSIGN(Endpoint endpoint, Endpoint::parse(options_.endpoint));
  FLOTA_ASSIGN(auto listening, listen_tcp(endpoint, reach()));
  tcp_ = std::move(listening.first);
  port_ = listening.second;
  host_ = endpoint.host;
  if (options_.local_sockets) {
    FLOTA_ASSIGN(unix_, listen_unix(endpoint.host, port_));
  }
  // Who comes already waits at the door.
  if (durability_) FLOTA_TRY(durability_->begin(*service_, filled_));
  acceptor_ = std::thread([this] { accept_loop(); });
  return {};
}

Reach Server::reach() const { return tls_ || options_.insecure ? Reach::kAnywhere : Reach::kLoopback; }

Result<void> Server::check_not_listening() const {
  if (!tcp_) return {};
  return invalid("the server listens already: tables are restored before that");
}

Result<void> Server::check_restores() {
  FLOTA_TRY(check_not_listening());
  if (recovered()) return invalid("this server has recovered its tables: a checkpoint would undo what came after it");
  filled_ = true;
  return {};
}

Result<void> Server::restore_table(const TableSpec& spec) {
  FLOTA_TRY(check_restores());
  return service_->restore_table(spec);
}

Result<uint64_t> Server::restore_rows(const Rows& rows) {
  FLOTA_TRY(check_restores());
  return service_->restore_rows(rows, ShardMap::even(options_.count), options_.index);
}

Result<void> Server::restore_parameter(WholeParameter parameter) {
  FLOTA_TRY(check_restores());
  return service_->restore_parameter(std::move(parameter));
}

Result<void> Server::restore_leases(const LeaseStates& states) {
  FLOTA_TRY(check_restores());
  return service_->restore_leases(states);
}

Result<void> Server::restore_history(const std::string& table, uint64_t era, uint64_t mark,
                                     std::vector<uint64_t> shrinks) {
  FLOTA_TRY(check_restores());
  return service_->restore_history(table, era, mark, std::move(shrinks));
}

Result<void> Server::restored(uint64_t checkpoint, uint64_t step) {
  FLOTA_TRY(check_restores());
  service_->restored(checkpoint, step);
  return {};
}

Server::~Server() { stop(); }

void Server::accept_loop() {
  for (;;) {
    pollfd fds[3] = {{wake_.get(), POLLIN, 0}, {tcp_.get(), POLLIN, 0}, {unix_.get(), POLLIN, 0}};
    if (poll(fds, unix_ ? 3 : 2, 1000) < 0 && errno != EINTR) return;
    if (fds[0].revents != 0) return;
    reap();  // first: an ended connection makes room for a new one
    for (int i = 1; i <= 2; ++i) {
      if (fds[i].revents == 0) continue;
      auto fd = accept_from(i == 1 ? tcp_ : unix_, Deadline::after(std::chrono::milliseconds(0)));
      if (fd) {
        admit(std::move(*fd), i == 2);
      } else if (fd.error().code == ErrorCode::kSystem) {
        // Out of file descriptors, most likely: wait for some to be closed instead of asking again at once.
        refuse(service_->counters().refused_connections, fd.error());
        poll(fds, 1, 50);
      }
    }
  }
}

void Server::admit(Fd fd, bool local) {
  std::string source = source_of(fd.get());
  std::lock_guard lock(mutex_);
  auto full = [this] { return proven_ + strangers_.size() >= options_.max_connections; };
  // Threads of peers that were sent away end at once, but even they are not let become many.
  const bool ending = sessions_.size() >= proven_ + 2 * options_.max_handshakes;
  if (!ending && !strangers_.empty() && (full() || strangers_.size() >= options_.max_handshakes)) {
    send_a_stranger_away();
  }
  if (ending || full()) {
    refuse(service_->counters().refused_connections, {ErrorCode::kBusy, "too many connections"});
    // Under TLS there is no saying so before a handshake, which is just what there is no room for.
    if (local || !tls_) send(fd.get(), busy_hello().data(), kHelloBytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    return;
  }
  Counters::add(service_->counters().connections_total);
  auto session = std::make_unique<Session>();
  session->local = local;
  session->source = std::move(source);
  session->handle = Fd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!session->handle) {
    refuse(service_->counters().refused_connections, system_error("no descriptor is left for " + session->source));
    return;
  }
  session->socket = std::make_unique<SocketStream>(std::move(fd));
  strangers_.push_back(session.get());
  try {
    session->thread = std::thread([this, raw = session.get()] { serve(*raw); });
  } catch (const std::system_error& error) {
    strangers_.pop_back();
    refuse(service_->counters().refused_connections, {ErrorCode::kSystem, error.what()});
    return;
  }
  sessions_.push_back(std::move(session));
}

void Server::send_a_stranger_away() {
  std::vector<const std::string*> sources;
  for (const Session* stranger : strangers_) sources.push_back(&stranger->source);
  const auto chosen = strangers_.begin() + static_cast<ptrdiff_t>(first_to_go(sources));
  (*chosen)->sent_away = true;
  (*chosen)->close();
  strangers_.erase(chosen);
}

bool Server::no_stranger_any_more(Session& session, bool proven) {
  std::lock_guard lock(mutex_);
  if (session.sent_away) return false;
  std::erase(strangers_, &session);
  if (proven) ++proven_;
  return true;
}

Result<std::unique_ptr<Stream>> Server::greet(Session& session) {
  const Deadline deadline = Deadline::after(options_.handshake_time);
  std::unique_ptr<Stream> stream;
  SocketStream* local_socket = session.local ? session.socket.get() : nullptr;
  ChannelBinding binding = session.local ? kLocalBinding : kPlainBinding;
  if (!session.local && tls_) {
    FLOTA_ASSIGN(auto tls, TlsStream::accept(tls_, std::move(session.socket), deadline));
    binding = tls->binding();
    stream = std::move(tls);
  } else {
    stream = std::move(session.socket);
  }
  bool shared = false;
  ServerIdentity identity{options_.index, options_.count, incarnation_, session.local};
  FLOTA_TRY(server_handshake(*stream, options_.secret, binding, identity, &shared, deadline));
  if (!shared) return stream;
  // Only a local socket gets here, so the stream is that socket.
  static_cast<void>(stream.release());
  return SharedMemoryStream::offer(std::unique_ptr<SocketStream>(local_socket), deadline);
}

void Server::serve(Session& session) {
  Counters& counters = service_->counters();
  auto greeted = greet(session);
  const std::string peer = "a peer at " + session.source;
  if (!no_stranger_any_more(session, greeted.has_value())) {
    refuse(counters.refused_connections, {ErrorCode::kBusy, "sent away " + peer + ": others came before its proof"});
  } else if (!greeted) {
    refuse(counters.refused_handshakes, greeted.error().with("refused " + peer));
  } else {
    Counters::add(counters.connections_open);
    Stream& stream = **greeted;
    FrameReader reader(stream, options_.max_payload);
    std::vector<std::byte> buffer;
    Result<void> status;
    while (status) {
      auto header = reader.next(Deadline::none());
      if (!header) {
        status = header.error();
        break;
      }
      answering_.fetch_add(1);
      const auto began = Deadline::Clock::now();
      const uint64_t sent = stream.framed();
      status = service_->answer(*header, reader, stream, buffer);
      service_->requests().add(header->kind, Deadline::Clock::now() - began, kHeaderBytes + header->payload_bytes,
                               stream.framed() - sent);
      answering_.fetch_sub(1);
      // A connection that has had one large request may be idle from then on, and there are thousands.
      if (buffer.capacity() > kMostKept) std::vector<std::byte>().swap(buffer);
    }
    const Error& why = status.error();
    if (why.code == ErrorCode::kMalformed || why.code == ErrorCode::kTooLarge || why.code == ErrorCode::kVersion) {
      refuse(counters.malformed_frames, why.with("ended the connection of " + peer));
    }
    counters.connections_open.fetch_sub(1);
    std::lock_guard lock(mutex_);
    --proven_;
  }
  session.close();
  session.finished.store(true);
}

void Server::refuse(std::atomic<uint64_t>& counter, const Error& error) {
  Counters::add(counter);
  if (!options_.log) return;
  std::lock_guard lock(log_mutex_);
  const auto now = Deadline::Clock::now();
  if (now < next_line_) {
    ++unsaid_;
    return;
  }
  next_line_ = now + kBetweenLines;
  const uint64_t unsaid = std::exchange(unsaid_, 0);
  options_.log(LogLevel::kWarning,
               error.message + (unsaid == 0 ? "" : " (" + std::to_string(unsaid) + " more refusals before this one)"));
}

void Server::reap() {
  std::list<std::unique_ptr<Session>> done;
  {
    std::lock_guard lock(mutex_);
    for (auto i = sessions_.begin(); i != sessions_.end();) {
      auto next = std::next(i);
      if ((*i)->finished.load()) done.splice(done.end(), sessions_, i);
      i = next;
    }
  }
  for (auto& session : done) session->thread.join();
}

size_t Server::connections() {
  std::lock_guard lock(mutex_);
  return proven_;
}

bool Server::wait(Deadline deadline) {
  std::unique_lock lock(mutex_);
  while (!asked_to_stop_ && !deadline.passed()) changed_.wait_until(lock, deadline.when());
  return asked_to_stop_;
}

void Server::stop() {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(stopped_, true)) return;
    asked_to_stop_ = true;
  }
  changed_.notify_all();
  uint64_t one = 1;
  [[maybe_unused]] ssize_t ignored = ::write(wake_.get(), &one, sizeof(one));
  if (acceptor_.joinable()) acceptor_.join();
  service_->stop();
  tcp_.reset();
  unix_.reset();
  std::list<std::unique_ptr<Session>> rest;
  {
    std::lock_guard lock(mutex_);
    rest.swap(sessions_);
  }
  // Whoever was let go by the last barrier before the end must still hear of it.
  const Deadline patience = Deadline::after(kLastAnswers);
  while (answering_.load() != 0 && !patience.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (auto& session : rest) session->close();
  for (auto& session : rest) session->thread.join();
  if (durability_) durability_->stop();
}

}  // namespace flota
