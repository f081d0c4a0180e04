// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/mount_program.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <mntent.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <utility>

#include "fs/mount/mount_options.h"
#include "fs/mount/status/mount_table.h"
#include "transport/base/log.h"

extern char** environ;

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

namespace {

constexpr std::string_view kHidden = "x-";

std::string proc_file(pid_t pid, const char* name) { return fmt::format("/proc/{}/{}", pid, name); }

std::string name_of(pid_t pid) {
  std::ifstream file(proc_file(pid, "comm"));
  std::string name;
  std::getline(file, name);
  return name;
}

// "PPid:	1234"
pid_t parent_of(pid_t pid) {
  std::ifstream lines(proc_file(pid, "status"));
  pid_t parent = 0;
  for (std::string key; lines >> key;) {
    if (key == "PPid:" && lines >> parent) break;
  }
  return parent;
}

// For the type fuse.brickfs mount.fuse(8) stands between, with a shell.
std::vector<std::string> words_of_mount() {
  pid_t pid = getppid();
  if (name_of(pid) == "sh") pid = parent_of(pid);
  std::vector<std::string> words;
  if (name_of(pid) != "mount") return words;
  std::ifstream line(proc_file(pid, "cmdline"));
  for (std::string word; std::getline(line, word, '\0');) words.push_back(std::move(word));
  return words;
}

// The values of an option, in each way in which getopt_long(3) takes them.
std::vector<std::string> values_of(const std::vector<std::string>& words, std::string_view letter,
                                   std::string_view name) {
  const std::string with_value = std::string(name) + "=";
  std::vector<std::string> values;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if ((word == letter || word == name) && i + 1 < words.size()) {
      values.push_back(words[++i]);
    } else if (word.starts_with(with_value)) {
      values.push_back(word.substr(with_value.size()));
    } else if (word.starts_with(letter)) {
      values.push_back(word.substr(letter.size()));
    }
  }
  return values;
}

bool is_same_place(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return a == b || std::filesystem::equivalent(a, b, ignored);
}

// Empty: no such line.
std::string options_in_fstab(const std::string& path, const std::string& source, const std::string& mountpoint) {
  const std::unique_ptr<FILE, int (*)(FILE*)> table(::setmntent(path.c_str(), "re"), ::endmntent);
  if (!table) return {};
  while (const mntent* const entry = ::getmntent(table.get())) {
    if (entry->mnt_fsname == source && is_same_place(entry->mnt_dir, mountpoint)) return entry->mnt_opts;
  }
  return {};
}

void take_hidden(std::string_view list, std::vector<std::string>& to) {
  while (!list.empty()) {
    const std::string_view option = take_option(list);
    if (option.starts_with(kHidden) && std::find(to.begin(), to.end(), option) == to.end()) to.emplace_back(option);
  }
}

}  // namespace

// With source and mountpoint in its command line mount(8) does not look into fstab.
std::vector<std::string> options_mount_keeps(const std::string& source, const std::string& mountpoint) {
  const std::vector<std::string> words = words_of_mount();
  std::vector<std::string> options;
  if (words.empty()) return options;
  for (const std::string& list : values_of(words, "-o", "--options")) take_hidden(list, options);
  if (std::find(words.begin(), words.end(), source) != words.end()) return options;
  const std::vector<std::string> tables = values_of(words, "-T", "--fstab");
  take_hidden(options_in_fstab(tables.empty() ? "/etc/fstab" : tables.back(), source, mountpoint), options);
  return options;
}

namespace {

constexpr const char* kUmountHelper = "/sbin/umount.fuse.brickfs";
constexpr const char* kHelperOption = "uhelper=fuse.brickfs";

std::string join(const std::vector<std::string>& options) {
  std::string list;
  for (const std::string& option : options) list += (list.empty() ? "" : ",") + option;
  return list;
}

}  // namespace

Status run_quietly(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDWR, 0);
  }
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return Error(failed, "running a program");
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? Status() : Error(EIO, "a program that was run");
}

// The name in the kernel's table would tell umount(8), but it looks at statfs(2), which tells no more than "fuse".
// With -o bg mount(8) has noted what was not mounted yet, without our helper. Readers believe the first entry that they
// find.
void register_in_utab(const std::string& source, const std::string& mountpoint, std::vector<std::string> options) {
  if (geteuid() != 0) return;
  std::erase_if(options, is_shown_option);  // a former mount's
  if (access(kUmountHelper, X_OK) == 0) options.emplace_back(kHelperOption);
  forget_in_utab(source, mountpoint);
  const Status told = run_quietly({"mount", "-i", "-f", "-t", "fuse.brickfs", "-o", join(options), source, mountpoint});
  if (told.ok()) return;
  log::warn(
      "umount will not wait until everything is durable, nor a shutdown, before the network goes: mount cannot write "
      "/run/mount/utab");
}

void forget_in_utab(const std::string& source, const std::string& mountpoint) {
  if (geteuid() != 0) return;
  for (size_t left = options_in_utab(source, mountpoint).size(); left > 0; --left) {
    if (!run_quietly({"umount", "-i", "--fake", mountpoint}).ok()) return;
  }
}

// Without a word mount(8) would take the options of fstab in the place of those that are there.
void add_to_utab(const std::string& source, const std::string& mountpoint, const std::vector<std::string>& options) {
  if (geteuid() != 0) return;
  std::vector<std::string> there;
  for (const std::string& list : options_in_utab(source, mountpoint)) {
    for (std::string_view rest = list; !rest.empty();) there.emplace_back(take_option(rest));
  }
  std::string added;
  for (const std::string& option : options) {
    if (std::find(there.begin(), there.end(), option) == there.end()) added += "," + option;
  }
  if (added.empty()) return;
  const Status told =
      run_quietly({"mount", "-i", "-f", "--options-source", "mtab", "-o", "remount" + added, mountpoint});
  if (!told.ok()) log::warn("mount cannot write {} to /run/mount/utab", added.substr(1));
}

}  // namespace brickfs
