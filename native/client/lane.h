#pragma once

#include <utility>
#include <vector>

#include "client/link.h"
#include "common/router.h"

namespace flota {

// A way to all servers at once: one link each, and the router's memory. A lane carries one call at a time; a client
// has as many as it has calls at once. Thread safety: one thread at a time.
class Lane {
 public:
  Lane(const std::vector<LinkOptions>& servers, const ShardMap& map) : router_(map) {
    for (const LinkOptions& options : servers) links_.emplace_back(options);
  }

  struct Request {
    uint32_t server = 0;
    Call call;
  };

  // Sends all requests, then takes the answers, so that servers work at the same time. Every answer is taken even
  // when one is an error; the first error is returned, before others one that is more than nobody's answer. A server
  // gets its requests in their order; see Link::send for what several of them require.
  Result<void> exchange(const std::vector<Request>& requests, Deadline deadline) {
    std::vector<std::vector<const Call*>> calls(links_.size());
    for (const Request& request : requests) calls[request.server].push_back(&request.call);
    for (size_t server = 0; server < links_.size(); ++server) {
      if (!calls[server].empty()) links_[server].send(calls[server], deadline);
    }
    Result<void> first;
    const auto waited = [](const Result<void>& status) {
      return status.error().code == ErrorCode::kDeadline || status.error().code == ErrorCode::kUnavailable;
    };
    for (size_t server = 0; server < links_.size(); ++server) {
      if (calls[server].empty()) continue;
      Result<void> status = links_[server].receive(calls[server], deadline);
      if (!status && (first || (waited(first) && !waited(status)))) first = std::move(status);
    }
    return first;
  }

  Router& router() { return router_; }

 private:
  std::vector<Link> links_;
  Router router_;
};

}  // namespace flota
