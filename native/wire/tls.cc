#include "wire/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>

namespace flota {
namespace {

constexpr size_t kPortion = size_t{256} << 10;

Error tls_error(const std::string& what, ErrorCode code = ErrorCode::kUnauthenticated) {
  std::string message = what;
  while (unsigned long number = ERR_get_error()) {
    char text[256];
    ERR_error_string_n(number, text, sizeof(text));
    message += std::string(": ") + text;
  }
  return {code, message};
}

// A key that is encrypted is refused: nobody sits at a server to be asked.
int no_password(char*, int, int, void*) { return -1; }

Result<void> load(SSL_CTX* context, const TlsOptions& options) {
  SSL_CTX_set_default_passwd_cb(context, no_password);
  if (options.certificate.empty() != options.key.empty()) {
    return invalid("TLS needs a certificate and its key together");
  }
  if (!options.certificate.empty()) {
    if (SSL_CTX_use_certificate_chain_file(context, options.certificate.c_str()) != 1) {
      return tls_error("cannot read the certificate " + options.certificate, ErrorCode::kInvalidArgument);
    }
    if (SSL_CTX_use_PrivateKey_file(context, options.key.c_str(), SSL_FILETYPE_PEM) != 1) {
      return tls_error("cannot read the key " + options.key, ErrorCode::kInvalidArgument);
    }
  }
  if (!options.authority.empty() && SSL_CTX_load_verify_locations(context, options.authority.c_str(), nullptr) != 1) {
    return tls_error("cannot read the authority " + options.authority, ErrorCode::kInvalidArgument);
  }
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  return {};
}

}  // namespace

Result<std::shared_ptr<TlsContext>> TlsContext::server(const TlsOptions& options) {
  std::shared_ptr<TlsContext> context(new TlsContext(SSL_CTX_new(TLS_server_method())));
  FLOTA_TRY(load(context->get(), options));
  // Nobody resumes a session here, and tickets that a client leaves unread would make its end reset the connection.
  SSL_CTX_set_num_tickets(context->get(), 0);
  if (options.certificate.empty()) return invalid("a server with TLS needs a certificate and its key");
  if (!options.authority.empty()) {
    SSL_CTX_set_verify(context->get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  return context;
}

Result<std::shared_ptr<TlsContext>> TlsContext::client(const TlsOptions& options) {
  std::shared_ptr<TlsContext> context(new TlsContext(SSL_CTX_new(TLS_client_method())));
  FLOTA_TRY(load(context->get(), options));
  if (options.authority.empty()) return invalid("a client with TLS needs an authority to check servers with");
  SSL_CTX_set_verify(context->get(), SSL_VERIFY_PEER, nullptr);
  context->check_host_ = options.check_host;
  return context;
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

TlsStream::TlsStream(std::shared_ptr<TlsContext> context, std::unique_ptr<SocketStream> socket)
    : context_(std::move(context)), socket_(std::move(socket)), ssl_(SSL_new(context_->get())) {
  SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
}

TlsStream::~TlsStream() { SSL_free(ssl_); }

Result<std::unique_ptr<TlsStream>> TlsStream::accept(std::shared_ptr<TlsContext> context,
                                                     std::unique_ptr<SocketStream> socket, Deadline deadline) {
  std::unique_ptr<TlsStream> stream(new TlsStream(std::move(context), std::move(socket)));
  SSL_set_accept_state(stream->ssl_);
  FLOTA_TRY(stream->handshake(deadline));
  return stream;
}

Result<std::unique_ptr<TlsStream>> TlsStream::connect(std::shared_ptr<TlsContext> context,
                                                      std::unique_ptr<SocketStream> socket, const std::string& host,
                                                      Deadline deadline) {
  bool check_host = context->check_host();
  std::unique_ptr<TlsStream> stream(new TlsStream(std::move(context), std::move(socket)));
  SSL_set_connect_state(stream->ssl_);
  if (check_host) {
    // An address is checked as an address, anything else as a name.
    X509_VERIFY_PARAM* parameters = SSL_get0_param(stream->ssl_);
    if (X509_VERIFY_PARAM_set1_ip_asc(parameters, host.c_str()) != 1) {
      ERR_clear_error();
      SSL_set1_host(stream->ssl_, host.c_str());
    }
  }
  SSL_set_tlsext_host_name(stream->ssl_, host.c_str());
  FLOTA_TRY(stream->handshake(deadline));
  return stream;
}

Result<void> TlsStream::handshake(Deadline deadline) {
  for (;;) {
    ERR_clear_error();
    int status = SSL_do_handshake(ssl_);
    FLOTA_TRY(send_pending(deadline));
    if (status == 1) return {};
    int why = SSL_get_error(ssl_, status);
    if (why != SSL_ERROR_WANT_READ) {
      long verified = SSL_get_verify_result(ssl_);
      std::string reason =
          verified == X509_V_OK ? "" : std::string(" (") + X509_verify_cert_error_string(verified) + ")";
      return tls_error("the TLS handshake failed" + reason);
    }
    // A peer that always has a few bytes more must not stretch the handshake.
    if (deadline.passed()) return Error{ErrorCode::kDeadline, "the TLS handshake took too long"};
    FLOTA_TRY(receive_more(deadline));
  }
}

Result<void> TlsStream::send_pending(Deadline deadline) {
  BIO* out = SSL_get_wbio(ssl_);
  char* data = nullptr;
  long size = BIO_get_mem_data(out, &data);
  if (size <= 0) return {};
  FLOTA_TRY(socket_->write_all({reinterpret_cast<std::byte*>(data), static_cast<size_t>(size)}, deadline));
  BIO_reset(out);
  return {};
}

Result<void> TlsStream::receive_more(Deadline deadline) {
  // Not zeroed: a peer that sends little, or nothing, touches a page of it at most.
  thread_local const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kPortion);
  FLOTA_ASSIGN(size_t count, socket_->read_some({buffer.get(), kPortion}, deadline));
  BIO_write(SSL_get_rbio(ssl_), buffer.get(), static_cast<int>(count));
  return {};
}

Result<size_t> TlsStream::read_some(std::span<std::byte> out, Deadline deadline) {
  for (;;) {
    ERR_clear_error();
    size_t count = 0;
    if (SSL_read_ex(ssl_, out.data(), out.size(), &count) == 1) return count;
    int why = SSL_get_error(ssl_, 0);
    if (why == SSL_ERROR_ZERO_RETURN) return Error{ErrorCode::kUnavailable, "the connection was closed"};
    if (why != SSL_ERROR_WANT_READ) {
      // An alert is the peer's own word, most likely about a certificate; anything else is damage.
      constexpr int kFirstAlert = 1000;
      bool alert = ERR_GET_REASON(ERR_peek_error()) >= kFirstAlert;
      return alert ? tls_error("the peer refused this side's certificate, or wants one", ErrorCode::kUnauthenticated)
                   : tls_error("TLS receive", ErrorCode::kMalformed);
    }
    // What the peer sent before it left can still be read when nothing can be sent to it any more.
    static_cast<void>(send_pending(deadline));
    FLOTA_TRY(receive_more(deadline));
  }
}

Result<void> TlsStream::write_all(std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    ERR_clear_error();
    size_t count = 0;
    if (SSL_write_ex(ssl_, bytes.data(), std::min(bytes.size(), kPortion), &count) != 1) {
      return tls_error("TLS send", ErrorCode::kMalformed);
    }
    FLOTA_TRY(send_pending(deadline));
    bytes = bytes.subspan(count);
  }
  return {};
}

std::array<std::byte, 32> TlsStream::binding() const {
  std::array<std::byte, 32> value{};
  static constexpr char kLabel[] = "EXPORTER-flota";
  SSL_export_keying_material(ssl_, reinterpret_cast<unsigned char*>(value.data()), value.size(), kLabel,
                             sizeof(kLabel) - 1, nullptr, 0, 0);
  return value;
}

}  // namespace flota
