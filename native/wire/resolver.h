#pragma once

#include <netdb.h>

#include <memory>
#include <string>

#include "common/deadline.h"
#include "common/result.h"

namespace flota {

struct AddressInfoDeleter {
  void operator()(addrinfo* info) const { freeaddrinfo(info); }
};
using AddressInfo = std::unique_ptr<addrinfo, AddressInfoDeleter>;

// The addresses of a host, at least one. A name is looked up by a thread of its own: the C library waits for
// name servers as long as it likes, five seconds a server and try, and one that has not come back by the deadline (or
// Ctrl-C) is left to itself. kDeadline, kUnavailable: there is no such host.
Result<AddressInfo> resolve(const std::string& host, uint16_t port, bool to_listen, Deadline deadline);

}  // namespace flota
