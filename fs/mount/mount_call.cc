// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/mount_call.h"

#include <fmt/core.h>

namespace brickfs {

bool is_mount_call(std::string_view program) { return program.substr(program.rfind('/') + 1) == "mount.brickfs"; }

Result<MountCall> parse_mount_call(const std::vector<std::string>& words, std::string* why) {
  MountCall call;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool has_value = i + 1 < words.size();
    if (word == "-f") {
      call.fake = true;
    } else if (word == "-o" && has_value) {
      call.words.insert(call.words.end(), {word, words[++i]});
    } else if (word == "-t" && has_value) {
      ++i;
    } else if (word == "-N") {
      *why = "mount -N: use nsenter(1) to mount in another namespace";
      return Error(EINVAL, "mount call");
    } else if (word != "-s" && word != "-n" && word != "-v") {
      call.words.push_back(word);
    }
  }
  return call;
}

int mount_exit_code(int brickfs_exit_code) {
  constexpr int kUsage = 2;
  if (brickfs_exit_code == 0) return 0;
  return brickfs_exit_code == kUsage ? 1 : 32;
}

}  // namespace brickfs
