// SPDX-License-Identifier: Apache-2.0
// What the measuring verbs of brickctl are told, and those of replicated sets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/base/bytes.h"
#include "transport/brick/tls_mode.h"
#include "transport/etcd/etcd_options.h"

namespace brickfs {

// By what a command proves itself to bricks, and what it encrypts by that over TCP.
struct SecretFile {
  SecretFile(std::string path = {})  // NOLINT(google-explicit-constructor): encrypted, if the brick can
      : path(std::move(path)) {}

  std::string path;  // empty: none
  TlsMode tls = TlsMode::kOn;
};

struct BenchOptions {
  uint64_t transfer_bytes = 1 * kMiB;  // at most a block
  unsigned depth = 1;
  unsigned threads = 1;
  double seconds = 5;  // of each direction
  bool reads = true;
  bool writes = true;
  std::optional<uint64_t> span_bytes;  // of the volume, that is read and written over and over
  bool steal = false;
};

struct PingOptions {
  uint64_t count = 5;  // 0: until interrupted
  double interval_seconds = 0.2;
};

struct NoticeOptions {
  uint64_t tag = 0;
  uint64_t value = 0;                                 // of notify
  std::optional<std::pair<uint64_t, uint64_t>> seen;  // of wait: origin and count; nothing: what is there now
  std::optional<double> timeout_seconds;              // of wait; nothing: for ever
};

struct SetOptions {
  std::string action;  // create, status, scrub, recover, replace, drain, remove, add, rebalance
  EtcdOptions etcd;
  uint64_t replicas = 0;             // of create, and recover
  std::vector<std::string> bricks;   // tcp:// and rdma:// sources without a volume
  std::vector<std::string> domains;  // BRICK=NAME, of replace NAME
  bool no_wait = false;              // of what moves copies
  bool dry_run = false;              // of recover: only say what it would do
  bool wait = false;                 // of status: until all copies are in sync
  uint64_t bytes_per_second = 0;     // of scrub; 0: as fast as it goes
};

}  // namespace brickfs
