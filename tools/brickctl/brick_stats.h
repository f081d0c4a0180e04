// SPDX-License-Identifier: Apache-2.0
// What a brick's volumes and clients do, as its administrator sees it: a subject of stats_loop.h.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tools/brickctl/json.h"
#include "tools/brickctl/operation_table.h"
#include "tools/brickctl/options.h"
#include "transport/base/result.h"
#include "transport/brick/administration.h"

namespace brickfs {

class BrickStats {
 public:
  struct Sample {
    std::vector<VolumeStatus> volumes;  // by name
    std::vector<ClientStatus> clients;  // by number
    std::chrono::steady_clock::time_point at;
  };
  static constexpr const char* kKeys = "t: traffic  c: calls  m: commits  n: name";

  // `source`: of the brick, or of one of its volumes, which is then all that is shown.
  BrickStats(std::string source, SecretFile admin_secret_file)
      : source_(std::move(source)), admin_secret_file_(std::move(admin_secret_file)) {}

  // EINVAL: no such source. ENOENT: no such volume. Else as Administrator::ask(). With one line in `why`.
  Result<Sample> look(std::string* why) const;
  // Rates between two looks; `before` null: what each client has done since it came.
  std::string text(const Sample* before, const Sample& now, SortBy by, bool with_share) const;
  Json json(const Sample* before, const Sample& now) const;

 private:
  const std::string source_;
  const SecretFile admin_secret_file_;
};

// What clients did between two looks; one that `before` lacks has begun with nothing.
std::vector<ClientStatus> clients_since(const std::vector<ClientStatus>& before, const std::vector<ClientStatus>& now);

}  // namespace brickfs
