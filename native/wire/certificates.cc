#include "wire/certificates.h"

#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <memory>

namespace flota {
namespace {

constexpr int kMaxDays = 3650;
// Hosts whose clocks are a little behind must not find a certificate that is not valid yet.
constexpr long kBeforeSeconds = 3600;
constexpr int kSerialBytes = 16;

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using X509Pointer = std::unique_ptr<X509, Deleter<X509_free>>;
using Text = std::unique_ptr<BIO, Deleter<BIO_free_all>>;

Error failed(const std::string& what) {
  char text[256] = "no reason given";
  if (unsigned long number = ERR_get_error()) ERR_error_string_n(number, text, sizeof(text));
  ERR_clear_error();
  return {ErrorCode::kSystem, "OpenSSL could not make " + what + ": " + text};
}

Result<Key> make_key() {
  std::unique_ptr<EVP_PKEY_CTX, Deleter<EVP_PKEY_CTX_free>> context(EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nullptr));
  EVP_PKEY* key = nullptr;
  if (!context || EVP_PKEY_keygen_init(context.get()) != 1 ||
      EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context.get(), NID_X9_62_prime256v1) != 1 ||
      EVP_PKEY_keygen(context.get(), &key) != 1) {
    return failed("a key");
  }
  return Key(key);
}

// Random: two authorities of the same name must not be taken for each other.
bool set_serial(X509& certificate) {
  unsigned char bytes[kSerialBytes];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) return false;
  bytes[0] &= 0x7f;  // a serial is not negative
  std::unique_ptr<BIGNUM, Deleter<BN_free>> number(BN_bin2bn(bytes, sizeof(bytes), nullptr));
  return number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(&certificate)) != nullptr;
}

Result<X509Pointer> begin(const std::string& name, EVP_PKEY& key, int days) {
  if (days < 1 || days > kMaxDays) {
    return invalid("a certificate is valid for 1 to " + std::to_string(kMaxDays) + " days, not " +
                   std::to_string(days));
  }
  X509Pointer certificate(X509_new());
  if (!certificate || X509_set_version(certificate.get(), 2) != 1 || !set_serial(*certificate) ||
      X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kBeforeSeconds) == nullptr ||
      X509_time_adj_ex(X509_getm_notAfter(certificate.get()), days, 0, nullptr) == nullptr ||
      X509_set_pubkey(certificate.get(), &key) != 1 ||
      X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0) != 1) {
    return failed("a certificate for " + name);
  }
  return certificate;
}

Result<void> extend(X509& certificate, X509& issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  if (!extension || X509_add_ext(&certificate, extension.get(), -1) != 1) return failed("the extension " + value);
  return {};
}

Result<Certificate> finish(X509& certificate, EVP_PKEY& key, X509& issuer, EVP_PKEY& issuer_key) {
  if (X509_set_issuer_name(&certificate, X509_get_subject_name(&issuer)) != 1 ||
      X509_sign(&certificate, &issuer_key, EVP_sha256()) <= 0) {
    return failed("a signature");
  }
  auto read = [](BIO& text) {
    char* data = nullptr;
    long size = BIO_get_mem_data(&text, &data);
    return std::string(data, static_cast<size_t>(size));
  };
  Text public_part(BIO_new(BIO_s_mem()));
  Text private_part(BIO_new(BIO_s_secmem()));
  if (PEM_write_bio_X509(public_part.get(), &certificate) != 1 ||
      PEM_write_bio_PrivateKey(private_part.get(), &key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return failed("PEM text");
  }
  return Certificate{read(*public_part), read(*private_part)};
}

// "IP:10.0.0.1,DNS:node3": what a host may be is checked, because a comma in a name would name another one.
Result<std::string> subject_names(const std::vector<std::string>& hosts) {
  std::string names;
  for (const std::string& host : hosts) {
    unsigned char address[sizeof(in6_addr)];
    bool is_address = inet_pton(AF_INET, host.c_str(), address) == 1 || inet_pton(AF_INET6, host.c_str(), address) == 1;
    bool is_name = !host.empty() && host.size() <= 253 && std::all_of(host.begin(), host.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == '*';
    });
    if (!is_address && !is_name) return invalid("'" + host + "' is neither a host's name nor its address");
    names += (names.empty() ? "" : ",") + std::string(is_address ? "IP:" : "DNS:") + host;
  }
  return names;
}

}  // namespace

Result<Certificate> make_authority(const std::string& name, int days) {
  FLOTA_ASSIGN(Key key, make_key());
  FLOTA_ASSIGN(X509Pointer certificate, begin(name, *key, days));
  FLOTA_TRY(extend(*certificate, *certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  FLOTA_TRY(extend(*certificate, *certificate, NID_key_usage, "critical,keyCertSign"));
  FLOTA_TRY(extend(*certificate, *certificate, NID_subject_key_identifier, "hash"));
  return finish(*certificate, *key, *certificate, *key);
}

Result<Certificate> issue_certificate(const Certificate& authority, const std::string& name,
                                      const std::vector<std::string>& hosts, CertificateUse use, int days) {
  FLOTA_ASSIGN(std::string names, subject_names(hosts));
  Text certificate_text(BIO_new_mem_buf(authority.certificate.data(), static_cast<int>(authority.certificate.size())));
  Text key_text(BIO_new_mem_buf(authority.key.data(), static_cast<int>(authority.key.size())));
  X509Pointer issuer(PEM_read_bio_X509(certificate_text.get(), nullptr, nullptr, nullptr));
  Key issuer_key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
  if (!issuer || !issuer_key) {
    ERR_clear_error();
    return invalid("the authority's certificate or key is not PEM text");
  }
  FLOTA_ASSIGN(Key key, make_key());
  FLOTA_ASSIGN(X509Pointer certificate, begin(name, *key, days));
  FLOTA_TRY(extend(*certificate, *issuer, NID_basic_constraints, "critical,CA:FALSE"));
  FLOTA_TRY(extend(*certificate, *issuer, NID_key_usage, "critical,digitalSignature"));
  // For one use: a client's certificate does not make a server, nor the other way round.
  FLOTA_TRY(
      extend(*certificate, *issuer, NID_ext_key_usage, use == CertificateUse::kServer ? "serverAuth" : "clientAuth"));
  FLOTA_TRY(extend(*certificate, *issuer, NID_subject_key_identifier, "hash"));
  FLOTA_TRY(extend(*certificate, *issuer, NID_authority_key_identifier, "keyid"));
  if (!names.empty()) FLOTA_TRY(extend(*certificate, *issuer, NID_subject_alt_name, names));
  return finish(*certificate, *key, *issuer, *issuer_key);
}

}  // namespace flota
