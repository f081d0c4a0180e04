// SPDX-License-Identifier: Apache-2.0
// How etcd is talked to, beside its addresses: what the options of the mount and of brickctl fill in.
#pragma once

#include <string>

namespace brickfs {

// Paths of files; empty: not given.
struct EtcdOptions {
  std::string ca_path;        // PEM. Given: TLS, with a certificate that one of these has signed
  std::string cert_path;      // PEM: what this client shows
  std::string key_path;       // PEM: of that
  std::string user;           // empty: none is named
  std::string password_path;  // has the user's password, as a secret file has its secret

  bool tls() const { return !ca_path.empty(); }
};

}  // namespace brickfs
