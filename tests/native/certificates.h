#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/check.h"
#include "testing.h"
#include "wire/certificates.h"

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
  // Signed by an authority that nobody trusts.
  std::string stranger() const { return path("stranger.pem"); }
  std::string stranger_key() const { return path("stranger.key"); }

  ~Certificates() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

 private:
  Certificates() {
    std::string name = (std::filesystem::temp_directory_path() / "flota-test-XXXXXX").string();
    FLOTA_CHECK(mkdtemp(name.data()) != nullptr, "a folder for certificates");
    folder_ = name;
    const Certificate authority = value_of(make_authority("test authority", 1));
    write("authority", authority);
    issue("server", {"127.0.0.1", "localhost"}, authority, CertificateUse::kServer);
    issue("elsewhere", {"elsewhere.example"}, authority, CertificateUse::kServer);
    issue("client", {"client.example"}, authority, CertificateUse::kClient);
    issue("stranger", {"127.0.0.1"}, value_of(make_authority("stranger", 1)), CertificateUse::kServer);
  }

  std::string path(const std::string& file) const { return folder_ + "/" + file; }

  void issue(const std::string& name, const std::vector<std::string>& hosts, const Certificate& authority,
             CertificateUse use) const {
    write(name, value_of(issue_certificate(authority, name, hosts, use, 1)));
  }

  void write(const std::string& name, const Certificate& made) const {
    std::ofstream(path(name + ".pem")) << made.certificate;
    std::ofstream(path(name + ".key")) << made.key;
  }

  std::string folder_;
};

}  // namespace flota::testing
