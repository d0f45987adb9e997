#include "wire/resolver.h"

#include "testing.h"
#include "wire/address.h"

using namespace flota;
using namespace flota::testing;

BOOST_AUTO_TEST_SUITE(resolver)

BOOST_AUTO_TEST_CASE(addresses_and_this_hosts_name_are_found) {
  for (const char* host : {"127.0.0.1", "::1", "localhost"}) {
    const AddressInfo found = value_of(resolve(host, 80, false, patience()));
    BOOST_TEST(is_loopback(*found->ai_addr));
  }
}

BOOST_AUTO_TEST_CASE(a_host_that_is_none_is_named) {
  const auto found = resolve("no such host", 80, false, patience());
  BOOST_TEST(code_of(found) == ErrorCode::kUnavailable);
  BOOST_TEST(contains(message_of(found), "'no such host'"));
}

BOOST_AUTO_TEST_CASE(a_lookup_ends_with_its_deadline) {
  // A name takes a thread at least, and this deadline has passed already.
  const auto found = resolve("some.name.invalid", 80, false, Deadline::after(milliseconds(0)));
  BOOST_TEST((code_of(found) == ErrorCode::kDeadline || code_of(found) == ErrorCode::kUnavailable));
}

BOOST_AUTO_TEST_SUITE_END()
