// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/administrator.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "fs/source/source_volume.h"
#include "tools/brickctl/target.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

constexpr const char* kAdminSecretFile = "/etc/brickfs/admin.secret";  // if it is there, and none is named
constexpr size_t kMostClients = 100'000;                               // a brick that lists more is not believed

}  // namespace

Result<ClientSecret> Administrator::secret(std::string* why) const {
  SecretFile file = secret_file_;
  if (file.path.empty() && ::access(kAdminSecretFile, F_OK) == 0) file.path = kAdminSecretFile;
  if (source_.embedded()) return ClientSecret();
  return secret_in(file, why);
}

Result<AdminAnswer> Administrator::ask(AdminRequest request, std::string* why) const {
  const ClientSecret secret = TRY(this->secret(why));
  AdminAnswer all;
  for (;;) {
    AdminAnswer page = TRY(administer(source_, secret, request, why));
    all.status = page.status;
    std::ranges::move(page.volumes, std::back_inserter(all.volumes));
    std::ranges::move(page.clients, std::back_inserter(all.clients));
    std::ranges::move(page.keys, std::back_inserter(all.keys));
    if (!page.more || all.volumes.size() > limits::kVolumes || all.clients.size() > kMostClients) return all;
    if (!all.volumes.empty()) request.volume = all.volumes.back().name;
    if (!all.clients.empty()) request.behind = all.clients.back().number;
  }
}

}  // namespace brickfs
