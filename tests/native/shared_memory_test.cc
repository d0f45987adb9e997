#include "wire/shared_memory.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "transports.h"

using namespace flota;
using namespace flota::testing;

namespace {

// A client that does as it likes with the memory it was given.
struct MadClient {
  std::unique_ptr<Stream> server;
  std::unique_ptr<SocketStream> socket;
  uint64_t* control = nullptr;

  static constexpr size_t kControlBytes = 4096;
  // In 64-bit words; docs/wire_format.md has the layout. Ring 0 carries requests, ring 1 replies.
  static constexpr size_t kRequestsWritten = 0, kRequestsTaken = 8, kRepliesWritten = 32, kRepliesTaken = 40;

  MadClient() {
    auto sockets = unix_ends();
    socket = std::move(sockets.client);
    const uint64_t go = 1;
    value_of(send_bytes(*socket, std::as_bytes(std::span(&go, 1))));
    server = value_of(SharedMemoryStream::offer(std::move(sockets.server), patience()));
    int fds[3];
    uint64_t size = 0;
    iovec data{&size, sizeof(size)};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(fds))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof(room);
    BOOST_TEST_REQUIRE(recvmsg(socket->fd().get(), &message, 0) == static_cast<ssize_t>(sizeof(size)));
    std::memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fds));
    void* page = mmap(nullptr, kControlBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    BOOST_TEST_REQUIRE(page != MAP_FAILED);
    control = static_cast<uint64_t*>(page);
    // The memory is sealed: nobody can make it smaller under the server's feet.
    BOOST_TEST(ftruncate(fds[0], 4096) != 0);
    for (int fd : fds) close(fd);
  }
  ~MadClient() { munmap(control, kControlBytes); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(shared_memory, *boost::unit_test::timeout(120))

BOOST_AUTO_TEST_CASE(a_peer_that_claims_more_bytes_than_the_ring_holds_is_refused) {
  for (uint64_t claim : {(uint64_t{1} << 20) + 1, uint64_t{1} << 40, ~uint64_t{0}}) {
    MadClient mad;
    std::atomic_ref(mad.control[MadClient::kRequestsWritten]).store(claim);
    BOOST_TEST(code_of(mad.server->peek(8, patience())) == ErrorCode::kMalformed);
  }
}

BOOST_AUTO_TEST_CASE(a_peer_that_claims_to_have_taken_what_was_never_sent_is_refused) {
  for (uint64_t claim : {uint64_t{1}, uint64_t{1} << 40, ~uint64_t{0}}) {
    MadClient mad;
    std::atomic_ref(mad.control[MadClient::kRepliesTaken]).store(claim);
    const std::vector<std::byte> chunk(Stream::kChunk);
    ErrorCode code = kNoError;
    for (int i = 0; i < 40 && code == kNoError; ++i) code = code_of(mad.server->write(chunk, Deadline::after(kSoon)));
    // All ones means one byte less than nothing taken: then the ring is merely fuller than it is.
    BOOST_TEST((code == ErrorCode::kMalformed || (claim == ~uint64_t{0} && code == ErrorCode::kDeadline)));
  }
}

BOOST_AUTO_TEST_CASE(a_peer_whose_counter_runs_backwards_is_refused) {
  MadClient mad;
  std::atomic_ref(mad.control[MadClient::kRequestsWritten]).store(1000);
  value_of(mad.server->peek(1000, patience()));
  mad.server->consume(1000);
  std::atomic_ref(mad.control[MadClient::kRequestsWritten]).store(500);
  BOOST_TEST(code_of(mad.server->peek(8, patience())) == ErrorCode::kMalformed);
}

BOOST_AUTO_TEST_SUITE_END()
