// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/options_in_force.h"

#include <algorithm>
#include <chrono>
#include <sstream>
#include <vector>

#include "fs/mount/status/brickfs_end.h"

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kServerAnswers{2'000};

}  // namespace

std::optional<UmountReport> ask_server(const std::string& device) {
  BrickfsEnd server(device);
  if (server.gone() || !server.hear(kServerAnswers)) return std::nullopt;
  return server.last();
}

std::optional<std::string> not_in_force(const MountCommand& command, const std::string& options) {
  std::vector<std::string> there;
  std::istringstream words(options);
  for (std::string word; words >> word;) there.push_back(word);
  const auto has = [&there](const std::string& word) {
    return std::find(there.begin(), there.end(), word) != there.end();
  };
  if (!command.read_only && has("ro")) return "rw";
  for (const auto& [about, option] : command.common) {
    if (!option.ends_with("=auto") && !has(option)) return option;
  }
  return std::nullopt;
}

}  // namespace brickfs
