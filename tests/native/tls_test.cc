#include "wire/tls.h"

#include "transports.h"

using namespace flota;
using namespace flota::testing;

BOOST_AUTO_TEST_SUITE(tls, *boost::unit_test::timeout(120))

BOOST_AUTO_TEST_CASE(both_ends_know_a_binding_that_no_other_connection_has) {
  auto one = tls_ends(client_tls(), server_tls());
  auto two = tls_ends(client_tls(), server_tls());
  BOOST_TEST((value_of(std::move(one.client))->binding() == value_of(std::move(one.server))->binding()));
  auto first = tls_ends(client_tls(), server_tls());
  BOOST_TEST((value_of(std::move(two.client))->binding() != value_of(std::move(first.client))->binding()));
}

BOOST_AUTO_TEST_CASE(a_server_with_an_unknown_certificate_is_refused) {
  const auto& files = Certificates::get();
  auto ends = tls_ends(client_tls(), {files.stranger(), files.stranger_key(), "", true});
  BOOST_TEST(code_of(ends.client) == ErrorCode::kUnauthenticated);
  BOOST_TEST(contains(message_of(ends.client), "certificate"));
  BOOST_TEST(!ends.server.has_value());
}

BOOST_AUTO_TEST_CASE(a_certificate_for_another_host_is_refused) {
  const auto& files = Certificates::get();
  const TlsOptions elsewhere{files.elsewhere(), files.elsewhere_key(), "", true};
  BOOST_TEST(code_of(tls_ends(client_tls(), elsewhere).client) == ErrorCode::kUnauthenticated);
  BOOST_TEST(code_of(tls_ends(client_tls(), elsewhere, "elsewhere.example").client) == kNoError);
  BOOST_TEST(code_of(tls_ends(client_tls(), server_tls(), "localhost").client) == kNoError);
  BOOST_TEST(code_of(tls_ends(client_tls(), server_tls(), "127.0.0.2").client) == ErrorCode::kUnauthenticated);
}

BOOST_AUTO_TEST_CASE(the_host_is_not_checked_where_the_options_say_so) {
  const auto& files = Certificates::get();
  TlsOptions client = client_tls();
  client.check_host = false;
  BOOST_TEST(code_of(tls_ends(client, {files.elsewhere(), files.elsewhere_key(), "", true}).client) == kNoError);
}

BOOST_AUTO_TEST_CASE(a_server_with_an_authority_demands_certificates_of_clients) {
  const auto& files = Certificates::get();
  TlsOptions server = server_tls();
  server.authority = files.authority();
  // In TLS 1.3 a client is ready before the server has looked at its certificate.
  BOOST_TEST(!tls_ends(client_tls(), server).server.has_value());
  TlsOptions client = client_tls();
  client.certificate = files.client();
  client.key = files.client_key();
  BOOST_TEST(tls_ends(client, server).server.has_value());
  client.certificate = files.stranger();
  client.key = files.stranger_key();
  BOOST_TEST(!tls_ends(client, server).server.has_value());
}

BOOST_AUTO_TEST_CASE(options_that_cannot_work_are_refused) {
  const auto& files = Certificates::get();
  BOOST_TEST(code_of(TlsContext::client({})) == ErrorCode::kInvalidArgument);
  BOOST_TEST(code_of(TlsContext::server({"", "", files.authority(), true})) == ErrorCode::kInvalidArgument);
  BOOST_TEST(code_of(TlsContext::server({files.server(), "", "", true})) == ErrorCode::kInvalidArgument);
  auto missing = TlsContext::server({"/nowhere/server.pem", files.server_key(), "", true});
  BOOST_TEST(code_of(missing) == ErrorCode::kInvalidArgument);
  BOOST_TEST(contains(message_of(missing), "/nowhere/server.pem"));
  BOOST_TEST(code_of(TlsContext::server({files.server(), files.client_key(), "", true})) ==
             ErrorCode::kInvalidArgument);
}

BOOST_AUTO_TEST_CASE(garbage_instead_of_a_handshake_is_refused) {
  auto sockets = tcp_ends();
  value_of(send_bytes(*sockets.client, sample(500)));
  auto context = value_of(TlsContext::server(server_tls()));
  BOOST_TEST(code_of(TlsStream::accept(context, std::move(sockets.server), patience())) == ErrorCode::kUnauthenticated);
}

BOOST_AUTO_TEST_CASE(a_silent_peer_ends_the_handshake_at_its_deadline) {
  auto sockets = tcp_ends();
  auto context = value_of(TlsContext::server(server_tls()));
  BOOST_TEST(code_of(TlsStream::accept(context, std::move(sockets.server), Deadline::after(kSoon))) ==
             ErrorCode::kDeadline);
}

BOOST_AUTO_TEST_SUITE_END()
