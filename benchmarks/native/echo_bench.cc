// The median time of a 64-byte request and its answer: a bare Asio echo against a pull of one row, on the same
// transport, each server in a process of its own, taking turns. Usage: echo_bench. Prints a JSON line each transport.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio.hpp>
#include <functional>
#include <memory>

#include "bench.h"
#include "client/client.h"
#include "server/server.h"

namespace {

namespace asio = boost::asio;
using namespace flota;

constexpr size_t kBytes = 64;
constexpr int kRounds = 20;
constexpr int kRequests = 1000;
const std::string kSecret = "benchmark-secret-benchmark";

// Runs `serve` in a child process that tells its port through a pipe and ends with this one.
std::pair<pid_t, uint16_t> in_child(const std::function<void(int)>& serve) {
  int pipe_fds[2];
  if (pipe(pipe_fds) != 0) std::abort();
  pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(pipe_fds[0]);
    serve(pipe_fds[1]);
    _exit(0);
  }
  close(pipe_fds[1]);
  uint16_t port = 0;
  if (read(pipe_fds[0], &port, sizeof(port)) != sizeof(port)) std::abort();
  close(pipe_fds[0]);
  return {child, port};
}

void tell_port(int fd, uint16_t port) {
  if (write(fd, &port, sizeof(port)) != sizeof(port)) std::abort();
}

template <class Socket>
asio::awaitable<void> echo(Socket socket) {
  std::array<char, kBytes> data;
  for (;;) {
    auto [error, count] = co_await asio::async_read(socket, asio::buffer(data), asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
    co_await asio::async_write(socket, asio::buffer(data, count), asio::use_awaitable);
  }
}

template <class Protocol>
void serve_echo(int fd, typename Protocol::endpoint endpoint, uint16_t port) {
  asio::io_context context(1);
  typename Protocol::acceptor acceptor(context, endpoint);
  if constexpr (std::is_same_v<Protocol, asio::ip::tcp>) port = acceptor.local_endpoint().port();
  tell_port(fd, port);
  typename Protocol::socket socket(context);
  acceptor.accept(socket);
  if constexpr (std::is_same_v<Protocol, asio::ip::tcp>) socket.set_option(asio::ip::tcp::no_delay(true));
  asio::co_spawn(context, echo(std::move(socket)), asio::detached);
  context.run();
}

void serve_flota(int fd) {
  ServerOptions options;
  options.secret = kSecret;
  auto server = Server::start(options);
  if (!server) std::abort();
  tell_port(fd, (*server)->port());
  (*server)->wait(Deadline::none());
}

double median(std::vector<double>& times) {
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2] * 1e6;
}

template <class Body>
double median_of(Body body) {
  std::vector<double> times(kRequests);
  for (double& time : times) {
    double start = bench::now();
    body();
    time = bench::now() - start;
  }
  return median(times);
}

template <class Socket>
void measure(const char* name, Transport transport, Socket& echo_socket, uint16_t flota_port) {
  ClientOptions options;
  options.endpoints = {"127.0.0.1:" + std::to_string(flota_port)};
  options.secret = kSecret;
  options.transport = transport;
  const auto time = std::chrono::milliseconds(10000);
  auto client = std::move(*Client::connect(options, time));
  TableSpec spec;
  spec.name = "echo";
  spec.dim = 2;
  RemoteTable table = *client->create_sparse(spec, time);
  const Key key = 7;
  std::array<float, 2> row;
  std::array<char, kBytes> data{};

  double best_echo = 1e9;
  double best_pull = 1e9;
  double best_ratio = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    double echo_time = median_of([&] {
      asio::write(echo_socket, asio::buffer(data));
      asio::read(echo_socket, asio::buffer(data));
    });
    double pull_time = median_of([&] {
      if (!client->pull(table, {&key, 1}, row, true, time)) std::abort();
    });
    best_echo = std::min(best_echo, echo_time);
    best_pull = std::min(best_pull, pull_time);
    best_ratio = std::min(best_ratio, pull_time / echo_time);
  }
  std::printf(
      "{\"transport\": \"%s\", \"asio_echo_us\": %.1f, \"pull_us\": %.1f, \"ratio\": %.2f, "
      "\"best_round_ratio\": %.2f}\n",
      name, best_echo, best_pull, best_pull / best_echo, best_ratio);
  std::fflush(stdout);
}

}  // namespace

int main() {
  const std::string path = "/tmp/flota-echo-bench-" + std::to_string(getpid());
  auto tcp = in_child([](int fd) { serve_echo<asio::ip::tcp>(fd, {asio::ip::make_address("127.0.0.1"), 0}, 0); });
  auto local = in_child([&](int fd) { serve_echo<asio::local::stream_protocol>(fd, path, 1); });
  auto flota = in_child(serve_flota);

  asio::io_context context;
  asio::ip::tcp::socket tcp_socket(context);
  tcp_socket.connect({asio::ip::make_address("127.0.0.1"), tcp.second});
  tcp_socket.set_option(asio::ip::tcp::no_delay(true));
  asio::local::stream_protocol::socket local_socket(context);
  local_socket.connect(path);
  unlink(path.c_str());

  measure("tcp", Transport::kTcp, tcp_socket, flota.second);
  measure("unix", Transport::kUnix, local_socket, flota.second);
  // There is no bare echo on shared memory: beside the Unix socket it begins as.
  measure("shared_memory", Transport::kSharedMemory, local_socket, flota.second);
  for (pid_t child : {tcp.first, local.first, flota.first}) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  return 0;
}
