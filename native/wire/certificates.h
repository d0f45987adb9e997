#pragma once

#include <string>
#include <vector>

#include "common/result.h"

// Certificates for a job: an authority of its own, and what it signs. OpenSSL is linked anyway, so making a set needs
// no other program or package (docs/decisions/0016).
namespace flota {

// A certificate and its private key, both as PEM text.
struct Certificate {
  std::string certificate;
  std::string key;
};

enum class CertificateUse { kServer, kClient };

// Signs itself, and may sign others but no further authority.
Result<Certificate> make_authority(const std::string& name, int days);

// Signed by the authority, for one use and for these hosts: addresses as addresses, all else as names.
Result<Certificate> issue_certificate(const Certificate& authority, const std::string& name,
                                      const std::vector<std::string>& hosts, CertificateUse use, int days);

}  // namespace flota
