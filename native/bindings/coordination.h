#pragma once

#include <nanobind/nanobind.h>

#include "client/client.h"

namespace flota {

// What workers share beside tables: shards of data. As methods of a client, and for a process without servers.
void bind_coordination(nanobind::module_& module, nanobind::class_<Client>& client);

}  // namespace flota
