// SPDX-License-Identifier: Apache-2.0
// Options of command lines about etcd, the same for every program.
#pragma once

#include <CLI/CLI.hpp>

#include "transport/etcd/etcd_options.h"

namespace brickfs {

inline void add_etcd_options(CLI::App& app, EtcdOptions& etcd) {
  app.add_option("--etcd-ca", etcd.ca_path, "CA of etcd's certificates: asks for TLS")->type_name("PATH");
  app.add_option("--etcd-cert", etcd.cert_path, "certificate that is shown to etcd")->type_name("PATH");
  app.add_option("--etcd-key", etcd.key_path, "of that certificate")->type_name("PATH");
  app.add_option("--etcd-user", etcd.user, "of etcd")->type_name("NAME");
  app.add_option("--etcd-password-file", etcd.password_path, "of that user")->type_name("PATH");
}

}  // namespace brickfs
