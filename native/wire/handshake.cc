#include "wire/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "wire/frame.h"

namespace flota {
namespace {

using Mac = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;

// The three messages as they lie on the wire, each a multiple of eight bytes.
struct ServerHello {
  uint32_t magic;
  uint16_t oldest_version;
  uint16_t newest_version;
  Nonce nonce;
};
struct ClientHello {
  uint32_t magic;
  uint16_t version;
  uint16_t flags;
  Nonce nonce;
  Mac mac;
};
struct ServerProof {
  uint32_t status;  // 0, or an ErrorCode
  uint32_t flags;
  uint32_t index;
  uint32_t count;
  uint64_t incarnation;
  Mac mac;
};
static_assert(sizeof(ServerHello) == 40 && sizeof(ClientHello) == 72 && sizeof(ServerProof) == 56);

constexpr uint32_t kHelloMagic = 0x484c4f46;  // "FOLH": not a frame's
constexpr uint16_t kFlagSharedMemory = 1;

template <class Message>
std::span<const std::byte> without_mac(const Message& message) {
  return std::as_bytes(std::span(&message, 1)).first(offsetof(Message, mac));
}

class Transcript {
 public:
  explicit Transcript(const ChannelBinding& binding) { add(binding); }
  void add(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

  // `who` keeps one side's proof from passing for the other's.
  Mac mac(const std::string& secret, std::string_view who) const {
    std::vector<std::byte> data(bytes_);
    for (char c : who) data.push_back(static_cast<std::byte>(c));
    Mac mac;
    unsigned size = 0;
    unsigned char* ok = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                             reinterpret_cast<const unsigned char*>(data.data()), data.size(),
                             reinterpret_cast<unsigned char*>(mac.data()), &size);
    FLOTA_CHECK(ok != nullptr && size == mac.size(), "HMAC-SHA-256 is not available");
    return mac;
  }

 private:
  std::vector<std::byte> bytes_;
};

constexpr std::string_view kClientSays = "flota client 1";
constexpr std::string_view kServerSays = "flota server 1";

bool equal(const Mac& a, const Mac& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

Nonce make_nonce() {
  Nonce nonce;
  FLOTA_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), nonce.size()) == 1, "no random numbers");
  return nonce;
}

template <class Message>
Result<void> send(Stream& stream, const Message& message, Deadline deadline) {
  FLOTA_TRY(stream.write(std::as_bytes(std::span(&message, 1)), deadline));
  return stream.flush(deadline);
}

template <class Message>
Result<Message> receive(Stream& stream, Deadline deadline) {
  Message message;
  FLOTA_TRY(stream.read(std::as_writable_bytes(std::span(&message, 1)), deadline));
  return message;
}

Result<void> refuse(Stream& stream, Error error, Deadline deadline) {
  ServerProof proof{};
  proof.status = static_cast<uint32_t>(error.code);
  FLOTA_TRY(send(stream, proof, deadline));
  return error;
}

}  // namespace

uint64_t random_number() {
  uint64_t number = 0;
  FLOTA_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(&number), sizeof(number)) == 1, "no random numbers");
  return number;
}

std::array<std::byte, kHelloBytes> busy_hello() {
  const ServerHello hello{kHelloMagic, 0, 0, {}};
  std::array<std::byte, kHelloBytes> bytes;
  static_assert(sizeof(hello) == kHelloBytes);
  std::memcpy(bytes.data(), &hello, sizeof(hello));
  return bytes;
}

Result<void> check_secret(const std::string& secret) {
  if (secret.size() >= kMinSecretBytes) return {};
  return invalid("the job's secret must have at least " + std::to_string(kMinSecretBytes) +
                 " bytes; make one with python -c 'import secrets; print(secrets.token_hex(32))'");
}

Result<void> server_handshake(Stream& stream, const std::string& secret, const ChannelBinding& binding,
                              ServerIdentity identity, bool* shared_memory_wanted, Deadline deadline) {
  ServerHello hello{kHelloMagic, kProtocolVersion, kProtocolVersion, make_nonce()};
  FLOTA_TRY(send(stream, hello, deadline));
  FLOTA_ASSIGN(auto answer, receive<ClientHello>(stream, deadline));
  // Whoever does not even say hello gets no answer.
  if (answer.magic != kHelloMagic) return Error{ErrorCode::kMalformed, "the peer does not speak this protocol"};
  if (answer.version != kProtocolVersion) {
    return refuse(stream,
                  {ErrorCode::kVersion, "the peer speaks protocol version " + std::to_string(answer.version) +
                                            ", this server version " + std::to_string(kProtocolVersion)},
                  deadline);
  }
  Transcript transcript(binding);
  transcript.add(std::as_bytes(std::span(&hello, 1)));
  transcript.add(without_mac(answer));
  if (!equal(transcript.mac(secret, kClientSays), answer.mac)) {
    return refuse(stream, {ErrorCode::kUnauthenticated, "the peer does not know the job's secret"}, deadline);
  }
  *shared_memory_wanted = (answer.flags & kFlagSharedMemory) != 0 && identity.shared_memory;
  ServerProof proof{
      0, *shared_memory_wanted ? kFlagSharedMemory : 0u, identity.index, identity.count, identity.incarnation, {}};
  transcript.add(without_mac(proof));
  proof.mac = transcript.mac(secret, kServerSays);
  return send(stream, proof, deadline);
}

Result<ServerIdentity> client_handshake(Stream& stream, const std::string& secret, const ChannelBinding& binding,
                                        bool want_shared_memory, Deadline deadline) {
  auto received = receive<ServerHello>(stream, deadline);
  if (!received) {
    Error error = received.error();
    if (error.code == ErrorCode::kDeadline)
      error.message = "it did not say hello in time (it may be hung, or expect TLS)";
    return error;
  }
  const ServerHello hello = *received;
  if (hello.magic != kHelloMagic) {
    return Error{ErrorCode::kMalformed, "what listens there is no flota server, or it expects TLS"};
  }
  if (hello.newest_version == 0) return Error{ErrorCode::kBusy, "the server has no room for another connection"};
  if (kProtocolVersion < hello.oldest_version || kProtocolVersion > hello.newest_version) {
    return Error{ErrorCode::kVersion, "the server speaks protocol versions " + std::to_string(hello.oldest_version) +
                                          " to " + std::to_string(hello.newest_version) + ", this client version " +
                                          std::to_string(kProtocolVersion) + "; install the same flota on both"};
  }
  ClientHello answer{
      kHelloMagic, kProtocolVersion, want_shared_memory ? kFlagSharedMemory : uint16_t{0}, make_nonce(), {}};
  Transcript transcript(binding);
  transcript.add(std::as_bytes(std::span(&hello, 1)));
  transcript.add(without_mac(answer));
  answer.mac = transcript.mac(secret, kClientSays);
  FLOTA_TRY(send(stream, answer, deadline));
  FLOTA_ASSIGN(auto proof, receive<ServerProof>(stream, deadline));
  if (proof.status == static_cast<uint32_t>(ErrorCode::kUnauthenticated)) {
    return Error{ErrorCode::kUnauthenticated,
                 "the server refused this client's secret; both must be given the same one (FLOTA_SECRET)"};
  }
  if (proof.status == static_cast<uint32_t>(ErrorCode::kBusy)) {
    return Error{ErrorCode::kBusy, "the server has no room for another connection"};
  }
  if (proof.status != 0) {
    return Error{ErrorCode::kVersion,
                 "the server refused this client's protocol version " + std::to_string(kProtocolVersion)};
  }
  transcript.add(without_mac(proof));
  if (!equal(transcript.mac(secret, kServerSays), proof.mac)) {
    return Error{ErrorCode::kUnauthenticated, "the server does not know the job's secret: it is not ours"};
  }
  return ServerIdentity{proof.index, proof.count, proof.incarnation, (proof.flags & kFlagSharedMemory) != 0};
}

}  // namespace flota
