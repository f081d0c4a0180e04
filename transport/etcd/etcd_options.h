// SPDX-License-Identifier: Apache-2.0
// How etcd is talked to, beside its addresses: what the options of the mount and of brickctl fill in.
#pragma once

#include <string>
#include <string_view>

namespace brickfs {

// Paths of files; empty: not given.
struct EtcdOptions {
  std::string ca_path;        // PEM. Given: TLS, with a certificate that one of these has signed
  std::string cert_path;      // PEM: what this client shows
  std::string key_path;       // PEM: of that
  std::string user;           // empty: none is named
  std::string password_path;  // has the user's password, as a secret file has its secret

  bool tls() const { return !ca_path.empty(); }
  bool operator==(const EtcdOptions&) const = default;
};

// What an option of that name sets: "ca", "cert", "key", "user", "password". Null: there is none.
inline std::string* etcd_option(EtcdOptions& options, std::string_view name) {
  if (name == "ca") return &options.ca_path;
  if (name == "cert") return &options.cert_path;
  if (name == "key") return &options.key_path;
  if (name == "user") return &options.user;
  return name == "password" ? &options.password_path : nullptr;
}

}  // namespace brickfs
