#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <tuple>
#include <vector>

#include "client/client.h"
#include "wire/lease_messages.h"

#define FLOTA_LEASE_STATES_GIVEN \
  "Sequence[tuple[str, int, int, int, Sequence[tuple[int, int]], Sequence[tuple[int, int]]]]"

namespace flota {

// (pass, epoch, shards, over_below, runs of done shards, samples of begun ones) of each open epoch.
using LeaseStateTuples =
    std::vector<std::tuple<std::string, uint64_t, uint64_t, uint64_t, std::vector<std::tuple<uint32_t, uint32_t>>,
                           std::vector<std::tuple<uint64_t, uint64_t>>>>;
LeaseStates states_of(const LeaseStateTuples& tuples);

// What workers share beside tables: shards of data, also without servers, and letters to each other.
void bind_coordination(nanobind::module_& module, nanobind::class_<Client>& client);
void bind_rejoin(nanobind::module_& module, nanobind::class_<Client>& client);
void bind_team(nanobind::module_& module, nanobind::class_<Client>& client);
void bind_observe(nanobind::module_& module, nanobind::class_<Client>& client);

}  // namespace flota
