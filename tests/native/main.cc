// The one place that compiles Boost.Test itself; test files include <boost/test/unit_test.hpp> and add their suites.
#define BOOST_TEST_MODULE flota
#include <boost/test/included/unit_test.hpp>
