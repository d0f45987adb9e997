#include "client/link.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/interrupt.h"
#include "wire/address.h"
#include "wire/messages.h"
#include "wire/shared_memory.h"

namespace flota {
namespace {

using std::chrono::milliseconds;

// Failures after which another try may succeed: the server is being restarted, is full, or the bytes were damaged.
bool may_pass(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kBusy || code == ErrorCode::kMalformed ||
         code == ErrorCode::kShuttingDown || code == ErrorCode::kNoSpace;
}

// Answers after which the same question may be answered otherwise: a server that is stopping is started again, and one
// whose disk is full may be given room.
bool is_passing(ErrorCode code) { return code == ErrorCode::kShuttingDown || code == ErrorCode::kNoSpace; }

std::string seconds(Deadline::Clock::duration time) {
  auto tenths = std::chrono::duration_cast<milliseconds>(time).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

std::string Link::name() const {
  return "server " + std::to_string(options_.index) + " (" + options_.endpoint.to_string() + ")";
}

Result<std::unique_ptr<Stream>> Link::open(Deadline deadline, bool local) {
  const Reach reach = options_.tls ? Reach::kAnywhere : options_.reach;
  auto raw = local ? connect_unix(options_.endpoint.host, options_.endpoint.port)
                   : connect_tcp(options_.endpoint, deadline, reach);
  if (!raw) return raw.error();
  auto socket = std::make_unique<SocketStream>(std::move(*raw));
  SocketStream* local_socket = local ? socket.get() : nullptr;
  std::unique_ptr<Stream> stream;
  ChannelBinding binding = local ? kLocalBinding : kPlainBinding;
  if (!local && options_.tls) {
    FLOTA_ASSIGN(auto tls, TlsStream::connect(options_.tls, std::move(socket), options_.endpoint.host, deadline));
    binding = tls->binding();
    stream = std::move(tls);
  } else {
    stream = std::move(socket);
  }
  const bool want_memory = local && options_.transport != Transport::kUnix;
  FLOTA_ASSIGN(ServerIdentity identity, client_handshake(*stream, options_.secret, binding, want_memory, deadline));
  if (identity.index != options_.index || identity.count != options_.count) {
    return Error{ErrorCode::kWrongServer, "what answers there is server " + std::to_string(identity.index) + " of " +
                                              std::to_string(identity.count) + ", not server " +
                                              std::to_string(options_.index) + " of " + std::to_string(options_.count) +
                                              "; give every process the same list of endpoints in the same order"};
  }
  if (!identity.shared_memory) return stream;
  static_cast<void>(stream.release());
  return SharedMemoryStream::accept(std::unique_ptr<SocketStream>(local_socket), deadline);
}

void Link::look_up() {
  if (options_.endpoints_file.empty()) return;
  std::ifstream file(options_.endpoints_file);
  std::vector<std::string> lines;
  // One line more than there may be tells that the file is another job's, or none.
  for (std::string line; lines.size() <= options_.count && std::getline(file, line);) lines.push_back(line);
  if (lines.size() != options_.count) return;
  if (auto endpoint = Endpoint::parse(lines[options_.index])) options_.endpoint = std::move(*endpoint);
}

Result<void> Link::connect(Deadline deadline) {
  if (stream_) return {};
  look_up();
  bool local = options_.transport == Transport::kUnix || options_.transport == Transport::kSharedMemory;
  if (options_.transport == Transport::kAuto && is_local_host(options_.endpoint.host)) {
    auto stream = open(deadline, true);
    if (stream) {
      stream_ = std::move(*stream);
      return {};
    }
    // A server without local sockets is still there by TCP.
    if (stream.error().code != ErrorCode::kUnavailable) return stream.error();
  }
  FLOTA_ASSIGN(stream_, open(deadline, local));
  return {};
}

Result<void> Link::send_once(const Call& call, Deadline deadline, bool more) {
  if (call.payload_bytes > options_.max_payload) {
    return Error{ErrorCode::kTooLarge, "a request of " + std::to_string(call.payload_bytes) + " bytes; the limit is " +
                                           std::to_string(options_.max_payload) +
                                           " (max_payload_mb, here and at the server)"};
  }
  FLOTA_TRY(connect(deadline));
  FrameWriter frame(*stream_);
  FLOTA_TRY(frame.begin(call.kind, ++request_, call.payload_bytes, deadline));
  FLOTA_TRY(call.send(frame, deadline));
  return frame.end(deadline, more);
}

Result<void> Link::receive_once(const Call& call, Deadline deadline) {
  answered_ = false;
  FrameReader frame(*stream_, options_.max_payload);
  FLOTA_ASSIGN(FrameHeader header, frame.next(deadline));
  if (header.request != expected_) return Error{ErrorCode::kMalformed, "an answer to another request"};
  if (header.kind == MessageKind::kReply) {
    FLOTA_TRY(call.receive(frame, deadline));
    return frame.finish(deadline);
  }
  if (header.kind != MessageKind::kError) return Error{ErrorCode::kMalformed, "neither an answer nor an error"};
  std::vector<std::byte> buffer;
  FLOTA_ASSIGN(auto payload, frame.rest(buffer, deadline));
  FLOTA_ASSIGN(ErrorReply reply, ErrorReply::decode(payload));
  FLOTA_TRY(frame.finish(deadline));
  answered_ = true;
  return reply.error;
}

void Link::send(Calls calls, Deadline deadline) {
  expected_ = request_ + 1;
  answered_ = false;
  for (const Call* call : calls) {
    sent_ = send_once(*call, deadline, call != calls.back());
    if (!sent_) {
      stream_.reset();
      return;
    }
  }
}

Result<void> Link::receive(Calls calls, Deadline deadline) {
  auto started = Deadline::Clock::now();
  milliseconds pause(5);
  Result<void> first;   // error of a call
  Result<void> before;  // why the last try but one failed: the deadline that ends the last one tells less
  for (int tries = 1; !calls.empty();) {
    Result<void> status = sent_ ? receive_once(*calls.front(), deadline) : sent_;
    Error error = status ? Error{} : status.error();
    const bool final_answer = status || (answered_ && !is_passing(error.code));
    if (final_answer) {
      if (!status && first) first = error.with(name());
      calls = calls.subspan(1);
      ++expected_;
      started = Deadline::Clock::now();
      tries = 1;
      pause = milliseconds(5);
      before = {};
      continue;
    }
    if (error.code == ErrorCode::kDeadline && !before) error = before.error();
    before = error;
    stream_.reset();
    if (!may_pass(error.code)) return error.with(name());
    if (deadline.passed()) {
      return Error{error.code, name() + ": " + error.message + "; gave up after " +
                                   seconds(Deadline::Clock::now() - started) + " and " + std::to_string(tries) +
                                   (tries == 1 ? " try" : " tries") +
                                   (error.code == ErrorCode::kUnavailable ? "; is it running?" : "")};
    }
    std::this_thread::sleep_for(Interrupt::slice(std::min(pause, deadline.left())));
    FLOTA_TRY(Interrupt::check());
    pause = std::min(pause * 2, milliseconds(500));
    for (const Call* call : calls) *call->repeated = true;
    send(calls, deadline);
    ++tries;
  }
  return first;
}

void Link::close() { stream_.reset(); }

}  // namespace flota
