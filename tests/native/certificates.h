#pragma once

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "common/check.h"

// Certificates made for one run of the tests, in a folder that goes away with it.
namespace flota::testing {

class Certificates {
 public:
  static const Certificates& get() {
    static const Certificates instance;
    return instance;
  }

  // Who signed everything below but the stranger's.
  std::string authority() const { return path("authority.pem"); }
  // For 127.0.0.1 and localhost.
  std::string server() const { return path("server.pem"); }
  std::string server_key() const { return path("server.key"); }
  // For another host.
  std::string elsewhere() const { return path("elsewhere.pem"); }
  std::string elsewhere_key() const { return path("elsewhere.key"); }
  std::string client() const { return path("client.pem"); }
  std::string client_key() const { return path("client.key"); }
  // Signed by itself, which nobody trusts.
  std::string stranger() const { return path("stranger.pem"); }
  std::string stranger_key() const { return path("stranger.key"); }

  ~Certificates() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

  Certificates() {
    std::string name = (std::filesystem::temp_directory_path() / "flota-test-XXXXXX").string();
    FLOTA_CHECK(mkdtemp(name.data()) != nullptr, "a folder for certificates");
    folder_ = name;
    Key authority_key = make_key();
    Certificate authority = sign("test authority", *authority_key, nullptr, *authority_key, "");
    write("authority", *authority, *authority_key);
    issue("server", "IP:127.0.0.1,DNS:localhost", *authority, *authority_key);
    issue("elsewhere", "DNS:elsewhere.example", *authority, *authority_key);
    issue("client", "DNS:client.example", *authority, *authority_key);
    Key stranger_key = make_key();
    write("stranger", *sign("stranger", *stranger_key, nullptr, *stranger_key, "IP:127.0.0.1"), *stranger_key);
  }

  std::string path(const std::string& file) const { return folder_ + "/" + file; }

  static Key make_key() {
    std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)> context(EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nullptr),
                                                                        EVP_PKEY_CTX_free);
    EVP_PKEY* key = nullptr;
    FLOTA_CHECK(EVP_PKEY_keygen_init(context.get()) == 1 &&
                    EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context.get(), NID_X9_62_prime256v1) == 1 &&
                    EVP_PKEY_keygen(context.get(), &key) == 1,
                "a key for a certificate");
    return {key, EVP_PKEY_free};
  }

  static void extend(X509& certificate, X509* issuer, int kind, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, &certificate, nullptr, nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
    FLOTA_CHECK(extension != nullptr && X509_add_ext(&certificate, extension, -1) == 1, "a certificate's extension");
    X509_EXTENSION_free(extension);
  }

  // Without an issuer it signs itself and may sign others.
  static Certificate sign(const std::string& name, EVP_PKEY& key, X509* issuer, EVP_PKEY& issuer_key,
                          const std::string& hosts) {
    static long serial = 1;
    Certificate certificate(X509_new(), X509_free);
    X509_set_version(certificate.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 86400);
    X509_set_pubkey(certificate.get(), &key);
    X509_NAME* subject = X509_get_subject_name(certificate.get());
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name.c_str()), -1,
                               -1, 0);
    X509* signer = issuer != nullptr ? issuer : certificate.get();
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(signer));
    if (issuer == nullptr) extend(*certificate, signer, NID_basic_constraints, "critical,CA:TRUE");
    if (!hosts.empty()) extend(*certificate, signer, NID_subject_alt_name, hosts);
    FLOTA_CHECK(X509_sign(certificate.get(), &issuer_key, EVP_sha256()) > 0, "a certificate's signature");
    return certificate;
  }

  void issue(const std::string& name, const std::string& hosts, X509& issuer, EVP_PKEY& issuer_key) const {
    Key key = make_key();
    write(name, *sign(name, *key, &issuer, issuer_key, hosts), *key);
  }

  void write(const std::string& name, X509& certificate, EVP_PKEY& key) const {
    std::FILE* file = std::fopen(path(name + ".pem").c_str(), "w");
    FLOTA_CHECK(file != nullptr && PEM_write_X509(file, &certificate) == 1, "a certificate's file");
    std::fclose(file);
    file = std::fopen(path(name + ".key").c_str(), "w");
    FLOTA_CHECK(file != nullptr && PEM_write_PrivateKey(file, &key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
                "a key's file");
    std::fclose(file);
  }

  std::string folder_;
};

}  // namespace flota::testing
