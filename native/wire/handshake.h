#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "common/result.h"
#include "wire/stream.h"

// Before any request is read, each side proves to the other that it knows the job's secret, without saying it: an
// HMAC-SHA-256 over both sides' random numbers. A recorded handshake is worthless next time, and with TLS the proof is
// bound to the very connection. docs/wire_format.md has the bytes.
namespace flota {

inline constexpr size_t kMinSecretBytes = 16;

// What a server tells a client that has proven the secret.
struct ServerIdentity {
  uint32_t index = 0;
  uint32_t count = 1;
  uint64_t incarnation = 0;  // another one after each start: what was in memory before is gone
  bool shared_memory = false;
};

// What a proof is bound to: with TLS TlsStream::binding(), else the kind of transport. So a local user who took a free
// name among the local sockets cannot pass proofs on to a server's TCP port, and then read and change what follows.
using ChannelBinding = std::array<std::byte, 32>;
inline constexpr ChannelBinding kPlainBinding{};
inline constexpr ChannelBinding kLocalBinding{std::byte{1}};

Result<void> check_secret(const std::string& secret);

// The server's side. `shared_memory_wanted` receives whether the client asks for shared memory; identity.shared_memory
// says whether this transport can.
Result<void> server_handshake(Stream& stream, const std::string& secret, const ChannelBinding& binding,
                              ServerIdentity identity, bool* shared_memory_wanted, Deadline deadline);

// The client's side.
Result<ServerIdentity> client_handshake(Stream& stream, const std::string& secret, const ChannelBinding& binding,
                                        bool want_shared_memory, Deadline deadline);

// What a server says to a peer that it has no room for, before it closes: a hello of no version at all.
inline constexpr size_t kHelloBytes = 40;
std::array<std::byte, kHelloBytes> busy_hello();

// Random bytes for identities and nonces, from OpenSSL.
uint64_t random_number();

}  // namespace flota
