#pragma once

#include <nanobind/nanobind.h>

#include "client/client.h"

namespace flota {

// What workers share beside tables: shards of data, also without servers, and letters to each other.
void bind_coordination(nanobind::module_& module, nanobind::class_<Client>& client);

}  // namespace flota
