#pragma once

#include <string>

struct sockaddr;

// What addresses say about peers.
namespace flota {

// Whether `host` is an address of this machine.
bool is_local_host(const std::string& host);

// Whether only this machine can reach the address: 127.0.0.0/8, ::1, and the former written as the latter.
bool is_loopback(const sockaddr& address);

// Who is at the other end of a connected socket, for telling floods apart from the rest: a TCP peer's address (of IPv6
// the network's half: one host may have all of the other), or a local peer's user. Equal for equal sources.
std::string source_of(int fd);

}  // namespace flota
