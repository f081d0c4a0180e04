// SPDX-License-Identifier: Apache-2.0
// brickd's command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/service/brick_service.h"
#include "transport/base/result.h"
#include "transport/brick/source.h"
#include "transport/brick/tls_mode.h"
#include "transport/etcd/etcd_options.h"
#include "transport/metrics/metrics_server.h"

namespace brickfs {

struct BrickdOptions {
  std::vector<ListenUrl> listen;  // at least one
  BrickConfig brick;
  bool keeps_in_service_manager = false;  // its memory; else BrickConfig::keep_path
  std::string secret_file;
  std::string admin_secret_file;
  TlsMode tls = TlsMode::kOn;
  std::string port_file;
  std::optional<MetricsAddress> metrics;
  std::optional<PageAddress> http;
  std::vector<HostPort> etcd;  // endpoints; none: it is not asked
  EtcdOptions etcd_options;
  std::string log_level = "info";
  bool foreground = false;
};

// What to do, or (after --help, --version, or a usage error, which has been said) the exit code as the error's code, 0
// too.
Result<BrickdOptions> parse_brickd_options(int argc, char** argv);

}  // namespace brickfs
