#include "wire/resolver.h"

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "common/interrupt.h"

namespace flota {
namespace {

struct Lookup {
  std::string host;
  std::string port;
  addrinfo hints{};
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  int status = 0;
  AddressInfo found;

  void run() {
    addrinfo* list = nullptr;
    const int result = getaddrinfo(host.c_str(), port.c_str(), &hints, &list);
    const std::lock_guard lock(mutex);
    status = result;
    if (result == 0) found.reset(list);
    done = true;
    changed.notify_all();
  }
};

Result<void> wait_for(Lookup& lookup, Deadline deadline) {
  std::unique_lock lock(lookup.mutex);
  while (!lookup.done) {
    lookup.changed.wait_for(lock, Interrupt::slice(deadline.left()));
    if (lookup.done) break;
    if (deadline.passed()) {
      return Error{ErrorCode::kDeadline, "no name server has said where host '" + lookup.host + "' is"};
    }
    lock.unlock();
    FLOTA_TRY(Interrupt::check());
    lock.lock();
  }
  return {};
}

}  // namespace

Result<AddressInfo> resolve(const std::string& host, uint16_t port, bool to_listen, Deadline deadline) {
  const auto lookup = std::make_shared<Lookup>();
  lookup->host = host;
  lookup->port = std::to_string(port);
  lookup->hints.ai_family = AF_UNSPEC;
  lookup->hints.ai_socktype = SOCK_STREAM;
  lookup->hints.ai_flags = AI_NUMERICSERV | AI_NUMERICHOST | (to_listen ? AI_PASSIVE : 0);
  lookup->run();  // an address needs nobody
  if (lookup->status == EAI_NONAME) {
    lookup->hints.ai_flags &= ~AI_NUMERICHOST;
    lookup->done = false;
    try {
      std::thread([lookup] { lookup->run(); }).detach();
    } catch (const std::system_error&) {
      lookup->run();  // there is no room for another thread
    }
    FLOTA_TRY(wait_for(*lookup, deadline));
  }
  if (lookup->status != 0) {
    return Error{ErrorCode::kUnavailable, "cannot find host '" + host + "': " + gai_strerror(lookup->status)};
  }
  return std::move(lookup->found);
}

}  // namespace flota
