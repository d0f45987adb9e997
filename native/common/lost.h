#pragma once

#include <string>

#include "common/result.h"

namespace flota {

// A server lacks what it has answered for. `what` says what that is.
inline Error lost(const std::string& what) {
  return {ErrorCode::kLost, what +
                                ": the end of its log is lost, as by the death of a machine without --durable_sync; "
                                "begin the job anew from its last checkpoint (init_server(dirname)), with another durable folder"};
}

}  // namespace flota
