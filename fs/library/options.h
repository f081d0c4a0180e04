// SPDX-License-Identifier: Apache-2.0
// The options of an open, and how a volume that another holds is waited for.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "fs/source/source_volume.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/client_secret.h"
#include "transport/brick/limits.h"
#include "transport/brick/source.h"
#include "transport/brick/tls_mode.h"
#include "transport/etcd/etcd_options.h"

namespace brickfs::library {

struct Options {
  bool read_only = false;
  bool follow = false;  // and read_only
  bool steal = false;
  bool shared = false;  // other machines have it, too
  std::string listen;   // ADDRESS[:PORT], with `shared`
  bool require_durable = false;
  bool over_files = false;
  bool no_atime = false;
  std::string secret_path;
  TlsMode tls = TlsMode::kOff;
  EtcdOptions etcd;
  std::chrono::seconds wait{4};
  std::chrono::seconds linger{15};  // of a close, for a brick that is away
  std::optional<std::chrono::milliseconds> soft;
  std::chrono::seconds soft_timeout = limits::kSoftTimeout;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t umask = 022;
  uint32_t workers = 8;
};

// EINVAL, with one line in `why`. Null: none.
Result<Options> parse_options(const char* text, std::string* why);

// What is opened.
struct OpenPlan {
  std::string name;  // the source as it was given
  Source source;
  Options options;
  ClientSecret secret;
  OpenRequest request;
};
Result<OpenPlan> plan_open(const char* source, const char* options, std::string* why);

// Opens until it succeeds, or fails with anything but EBUSY, or the time to wait is over.
using OpenOnce = std::function<Status(SourceFailure& failure)>;
Status open_when_free(const OpenPlan& plan, const OpenOnce& open, std::string* why);
// ENOTSUP: the brick is not what the option `durable` asks for.
Status check_durability(const OpenPlan& plan, Durability durability, std::string* why);

}  // namespace brickfs::library
