// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/cache/dirty_limit.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace brickfs {
namespace {

std::string setting(const std::string& directory, const std::string& device, const char* name) {
  return directory + "/" + device + "/" + name;
}

}  // namespace

bool tells_dirty_limit(const std::string& directory) {
  std::error_code failed;
  for (const auto& device : std::filesystem::directory_iterator(directory, failed)) {
    return access((device.path() / "max_bytes").c_str(), R_OK) == 0;
  }
  return false;
}

std::optional<uint64_t> read_dirty_limit(const std::string& device, const std::string& directory) {
  uint64_t bytes = 0;
  unsigned strict = 0;
  std::ifstream limit(setting(directory, device, "max_bytes"));
  std::ifstream holds(setting(directory, device, "strict_limit"));
  if (!(limit >> bytes) || !(holds >> strict) || strict != 1) return std::nullopt;
  return bytes;
}

std::optional<uint64_t> set_dirty_limit(const std::string& device, uint64_t bytes, const std::string& directory) {
  std::ofstream limit(setting(directory, device, "max_bytes"));
  limit << bytes << std::endl;
  return read_dirty_limit(device, directory);
}

}  // namespace brickfs
