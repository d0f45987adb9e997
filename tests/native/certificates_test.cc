#include "wire/certificates.h"

#include "transports.h"

using namespace flota;
using namespace flota::testing;

BOOST_AUTO_TEST_SUITE(certificates, *boost::unit_test::timeout(120))

namespace {

std::string refusal(const std::vector<std::string>& hosts, int days = 1) {
  static const Certificate authority = value_of(make_authority("authority", 1));
  return message_of(issue_certificate(authority, "server", hosts, CertificateUse::kServer, days));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_host_that_would_name_another_one_is_refused) {
  for (const char* host : {"", "a,DNS:b", "a b", "a\nb", "IP:10.0.0.1", "10.0.0.1/8", "[::1]"}) {
    BOOST_TEST(contains(refusal({host}), "is neither a host's name nor its address"), host);
  }
  BOOST_TEST(refusal({"10.0.0.1", "fe80::1", "node-3.example", "*.example"}) == "");
}

BOOST_AUTO_TEST_CASE(days_have_bounds) {
  BOOST_TEST(contains(refusal({"a"}, 0), "1 to 3650 days, not 0"));
  BOOST_TEST(contains(refusal({"a"}, 3651), "1 to 3650 days, not 3651"));
  BOOST_TEST(refusal({"a"}, 3650) == "");
}

BOOST_AUTO_TEST_CASE(an_authority_that_is_no_pem_text_is_refused) {
  const Certificate nonsense{"nonsense", "nonsense"};
  BOOST_TEST(contains(message_of(issue_certificate(nonsense, "a", {}, CertificateUse::kServer, 1)), "not PEM text"));
}

BOOST_AUTO_TEST_CASE(a_certificate_is_for_one_use_only) {
  const auto& files = Certificates::get();
  // A client's certificate does not make a server,
  BOOST_TEST(code_of(tls_ends(client_tls(), {files.client(), files.client_key(), "", false}).client) ==
             ErrorCode::kUnauthenticated);
  // nor a server's a client.
  TlsOptions server = server_tls();
  server.authority = files.authority();
  TlsOptions client = client_tls();
  client.certificate = files.server();
  client.key = files.server_key();
  BOOST_TEST(!tls_ends(client, server).server.has_value());
}

BOOST_AUTO_TEST_CASE(two_authorities_of_one_name_are_two) {
  const Certificate one = value_of(make_authority("flota", 1));
  const Certificate another = value_of(make_authority("flota", 1));
  BOOST_TEST(one.certificate != another.certificate);
  BOOST_TEST(one.key != another.key);
}

BOOST_AUTO_TEST_SUITE_END()
