#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "common/deadline.h"
#include "common/result.h"
#include "wire/frame.h"
#include "wire/handshake.h"
#include "wire/socket.h"
#include "wire/tls.h"

namespace flota {

enum class Transport : uint8_t {
  kAuto = 1,  // shared memory on the same host, else TCP
  kTcp = 2,
  kUnix = 3,
  kSharedMemory = 4,
};

// What a client needs to know to reach one server.
struct LinkOptions {
  Endpoint endpoint;
  uint32_t index = 0;  // which server must answer there
  uint32_t count = 1;
  std::string secret;
  Transport transport = Transport::kAuto;
  std::shared_ptr<TlsContext> tls;  // null: none
  uint64_t max_payload = kDefaultMaxPayload;
  Reach reach = Reach::kLoopback;  // of TCP without TLS
  // Empty, or a file that is read before each connection is made: its line `index` is the server's endpoint from then
  // on, so that a server may come back elsewhere while its clients run. Whoever writes it replaces it by a rename.
  // Where it cannot be read, or has not a line for each server, what was known before holds.
  std::string endpoints_file;
};

// One request to one server, and what to do with the answer. Both may run again after a broken connection.
struct Call {
  MessageKind kind{};
  uint64_t payload_bytes = 0;
  std::function<Result<void>(FrameWriter&, Deadline)> send;     // writes the payload
  std::function<Result<void>(FrameReader&, Deadline)> receive;  // reads the reply's payload to its end
  // Set when the request is sent again.
  std::shared_ptr<bool> repeated = std::make_shared<bool>(false);
};

// A connection to one server, made when first needed and again when it breaks. Thread safety: one thread at a time,
// but interrupt() may come from any.
class Link {
 public:
  explicit Link(LinkOptions options) : options_(std::move(options)) {}

  // Sends the calls one after another without waiting for answers, connecting if need be. Failures are kept for
  // receive(), which tries again. Requires, with several: either their payloads or their answers are small, so that
  // nobody waits for a peer that waits for him.
  using Calls = std::span<const Call* const>;
  void send(Calls calls, Deadline deadline);
  // Waits for the answers; whatever breaks on the way is mended (connect, send again what was not answered) until the
  // deadline. Every answer is taken even when one is an error; returns the first error, which names the server.
  Result<void> receive(Calls calls, Deadline deadline);

  // "server 1 (10.0.0.7:7164)"
  std::string name() const;
  void close();

 private:
  Result<void> connect(Deadline deadline);
  void look_up();
  Result<std::unique_ptr<Stream>> open(Deadline deadline, bool local);
  Result<void> send_once(const Call& call, Deadline deadline, bool more);
  Result<void> receive_once(const Call& call, Deadline deadline);

  LinkOptions options_;
  std::unique_ptr<Stream> stream_;
  uint64_t request_ = 0;   // the number of the last request
  uint64_t expected_ = 0;  // the number of the next answer
  Result<void> sent_;
  bool answered_ = false;  // the error came from the server's own answer, and trying again would not change it
};

}  // namespace flota
