// SPDX-License-Identifier: Apache-2.0
// mount(8): how it runs brickfs, what it does not tell, and what it, umount(8) and systemd know of a mount later.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "transport/base/result.h"

namespace brickfs {

// How mount(8) runs a file system's helper: mount.brickfs SOURCE MOUNTPOINT [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t
// TYPE]. That helper is brickfs under another name; its letters mean other things there than on brickfs's own command
// line.
struct MountCall {
  std::vector<std::string> words;  // what brickfs's command line would be
  bool fake = false;               // mount -f: all but the mount itself
};

bool is_mount_call(std::string_view program);  // argv[0]

// EINVAL, with a line for people: what mount(8) does not say.
Result<MountCall> parse_mount_call(const std::vector<std::string>& words, std::string* why);

// What mount(8) passes on: 1 for usage, 32 for a mount that failed.
int mount_exit_code(int brickfs_exit_code);

// What mount(8) knows of a mount and does not tell the program that it runs for its type: options that begin with x-.
// Where such a program writes to /run/mount/utab itself (register_in_utab), mount(8) does not, and they would be lost.
//
// As they stand in the command line of the mount(8) that runs this process, or in its fstab. `source`, `mountpoint`: as
// it was told them. None, if it was run by another program.
std::vector<std::string> options_mount_keeps(const std::string& source, const std::string& mountpoint);

// What mount(8), umount(8) and systemd know of a mount beside the kernel's table, in /run/mount/utab: options of their
// own (_netdev, x-..., user), that umount(8) runs our helper (tools/umount), and ours that the kernel does not show.
// mount(8) writes it, and only if the program that it runs for a type has not.
//
// If this is root, and before it is mounted: who hears of a mount looks there at once, and systemd, which goes by
// _netdev, perhaps not again for a second. `source`: as the kernel's table of mounts will have it. `options`: of which
// mount(8) takes what is of use later. The helper is told if it is installed. What a former mount of that source has
// left there goes. Nothing is asked of a file system at the mountpoint.
void register_in_utab(const std::string& source, const std::string& mountpoint, std::vector<std::string> options);

// Of a mount that has come to nothing, or that was not ended by umount(8).
void forget_in_utab(const std::string& source, const std::string& mountpoint);

// Adds to what is there, of a mount that is served, what it has not.
void add_to_utab(const std::string& source, const std::string& mountpoint, const std::vector<std::string>& options);

// Runs a program of the system, without a word, to its end.
Status run_quietly(std::vector<std::string> words);

}  // namespace brickfs
