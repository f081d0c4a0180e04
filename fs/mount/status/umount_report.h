// SPDX-License-Identifier: Apache-2.0
// What a brickfs says to the umount helper (tools/umount), to another brickfs that is to mount its volume
// (second_mount.h), and to brickctl, over a socket that no FUSE request is needed for: so that none of them ever waits
// for one. Each packet of brickfs is a report, or a state (mount_state.h) if one was asked for; what the others send is
// one word.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "transport/volume/link_state.h"

namespace brickfs {

struct UmountReport {
  LinkState::Kind link = LinkState::Kind::kConnected;
  bool serving = false;         // the kernel has not ended the connection
  bool ended = false;           // the last one: the volume has been let go, or given up
  pid_t pid = 0;                // of brickfs
  uint64_t linger_seconds = 0;  // that it goes on for after an unmount, if the brick stays away
  uint64_t progress = 0;        // another number: something has got on
  // Not told by an older brickfs, which counts as none.
  uint64_t uncommitted_operations = 0;
  uint64_t uncommitted_bytes = 0;
  std::string uncommitted;  // for people; empty: nothing
  std::string text;         // of the link, or what there is to say in the end
  std::string options;      // that hold for all mounts of the volume, with spaces between
};

// The others' words. The mount was cut off by force: no more time for a brick that is away than a signal gives.
constexpr std::string_view kUmountForced = "forced";
// What is your state?
constexpr std::string_view kAskState = "state";

constexpr size_t kUmountPacketBytes = 4096;

std::string encode(const UmountReport& report);  // at most kUmountPacketBytes
std::optional<UmountReport> decode_umount_report(std::string_view packet);

// The socket of the mount with this device number ("MAJOR:MINOR"), in a directory that only root may enter.
constexpr const char* kUmountDirectory = "/run/brickfs";
std::string umount_socket(std::string_view device_number);

}  // namespace brickfs
