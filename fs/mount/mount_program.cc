// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/mount_program.h"

#include <fmt/core.h>
#include <mntent.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>

#include "fs/mount/option_list.h"

namespace brickfs {
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

}  // namespace brickfs
