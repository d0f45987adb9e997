#pragma once

#include <string>

#include "common/result.h"

namespace flota {

// A server lacks what it has answered for. `what` says what that is.
inline Error lost(const std::string& what) {
  return {ErrorCode::kLost,
          what +
              "; a server loses the end of its log when its machine dies, without --durable_sync: begin the job anew "
              "from its last checkpoint (init_server(dirname)), with another durable folder"};
}

}  // namespace flota
