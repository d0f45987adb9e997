#include "wire/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

namespace flota {
namespace {

constexpr size_t kNetworkBytes = 8;  // of an IPv6 address
constexpr size_t kMappedBytes = 12;  // before an IPv4 address that is written as IPv6

}  // namespace

bool is_local_host(const std::string& host) {
  if (host == "localhost") return true;
  in6_addr wanted6{};
  in_addr wanted4{};
  bool v4 = inet_pton(AF_INET, host.c_str(), &wanted4) == 1;
  bool v6 = !v4 && inet_pton(AF_INET6, host.c_str(), &wanted6) == 1;
  if (v4 && (ntohl(wanted4.s_addr) >> 24) == 127) return true;
  if (v6 && IN6_IS_ADDR_LOOPBACK(&wanted6)) return true;
  ifaddrs* interfaces = nullptr;
  if ((!v4 && !v6) || getifaddrs(&interfaces) != 0) return false;
  bool found = false;
  for (ifaddrs* i = interfaces; i != nullptr && !found; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    if (v4 && i->ifa_addr->sa_family == AF_INET) {
      found = reinterpret_cast<sockaddr_in*>(i->ifa_addr)->sin_addr.s_addr == wanted4.s_addr;
    } else if (v6 && i->ifa_addr->sa_family == AF_INET6) {
      found = std::memcmp(&reinterpret_cast<sockaddr_in6*>(i->ifa_addr)->sin6_addr, &wanted6, sizeof(wanted6)) == 0;
    }
  }
  freeifaddrs(interfaces);
  return found;
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24) == 127;
  }
  if (address.sa_family != AF_INET6) return false;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[kMappedBytes] == 127);
}

std::string source_of(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return "";  // gone already
  if (peer.ss_family == AF_UNIX) {
    ucred user{};
    socklen_t user_size = sizeof(user);
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &user_size);
    return "user " + std::to_string(user.uid);
  }
  char text[INET6_ADDRSTRLEN] = "";
  if (peer.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in&>(peer).sin_addr, text, sizeof(text));
    return text;
  }
  in6_addr v6 = reinterpret_cast<sockaddr_in6&>(peer).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    inet_ntop(AF_INET, &v6.s6_addr[kMappedBytes], text, sizeof(text));
    return text;
  }
  std::memset(&v6.s6_addr[kNetworkBytes], 0, sizeof(v6) - kNetworkBytes);
  inet_ntop(AF_INET6, &v6, text, sizeof(text));
  return std::string(text) + "/64";
}

}  // namespace flota
