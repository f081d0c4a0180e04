// SPDX-License-Identifier: Apache-2.0
// brickctl volume: the volumes of a brick, for its administrator.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tools/brickctl/administrator.h"
#include "tools/brickctl/commands.h"
#include "tools/brickctl/json.h"
#include "tools/brickctl/target.h"
#include "transport/base/local_time.h"
#include "transport/base/printable.h"
#include "transport/base/size.h"

namespace brickfs {
namespace {

int complain(const Command& command, const std::string& why) {
  fmt::print(stderr, "brickctl: {}: {}\n", command.source, printable(why));
  return EXIT_FAILURE;
}

std::string size_of_blocks(uint64_t blocks) { return format_size(blocks * kBlockBytes); }

std::string describe_size(const VolumeStatus& volume) {
  return volume.size_blocks ? size_of_blocks(*volume.size_blocks) : "-";
}

std::string describe_holder(const VolumeStatus& volume) {
  if (!volume.holder) return "-";
  std::string text = fmt::format("{} since {}", volume.holder->name, local_time(volume.holder->since_unix_seconds));
  if (volume.holder_away) text += " (not connected)";
  if (volume.readers > 1) text += fmt::format(" and {} more readers", volume.readers - 1);
  return text;
}

Json to_json(const VolumeStatus& volume) {
  const auto bytes = [](uint64_t blocks) { return blocks * kBlockBytes; };
  Json holder;
  if (volume.holder) {
    holder = {{"name", volume.holder->name},
              {"since", volume.holder->since_unix_seconds},
              {"connected", !volume.holder_away},
              {"kept_for_ms", volume.holder->kept_for.count()}};
  }
  return {{"name", volume.name},
          {"size_bytes", volume.size_blocks ? Json(bytes(*volume.size_blocks)) : Json()},
          {"used_bytes", bytes(volume.used_blocks)},
          {"mapped_bytes", bytes(volume.mapped_blocks)},
          {"in_memory_bytes", bytes(volume.resident_blocks)},
          {"epoch", static_cast<uint64_t>(volume.epoch)},
          {"holder", holder},
          {"readers", volume.readers},
          {"observers", volume.observers},
          {"configured", volume.is_configured},
          {"size_configured", volume.size_is_configured},
          {"keyed", volume.is_keyed}};
}

// What the brick refuses with.
std::string describe_refusal(const Command& command, const AdminAnswer& answer) {
  const std::string& name = command.admin.volume;
  const VolumeStatus volume = answer.volumes.empty() ? VolumeStatus() : answer.volumes.front();
  switch (answer.status) {
    case EEXIST:
      return fmt::format("there is a volume {} already", name);
    case ENOENT:
      return fmt::format("the brick has no volume {}", name);
    case ENOSPC:
      return fmt::format("the brick has {} volumes, as many as it can have", limits::kVolumes);
    case EDQUOT:
      return fmt::format("volume {} has {} blocks ({}) allocated: it cannot be made smaller than that", name,
                         volume.used_blocks, size_of_blocks(volume.used_blocks));
    case EBUSY:
      return fmt::format("volume {} is held by {}; --force cuts it off", name, describe_holder(volume));
    case ENOTEMPTY:
      return fmt::format("volume {} is not empty: {} blocks ({}); --force removes it with all that is in it", name,
                         volume.used_blocks, size_of_blocks(volume.used_blocks));
    case EPERM:
      return fmt::format("volume {} is always there", name);
    case ECONNREFUSED:
      return "the brick is stopping";
    case EIO:
      return "the brick's store failed: its log says why";
    default:
      return std::strerror(answer.status);
  }
}

// What will be otherwise after the brick's next start.
std::string describe_configuration(const Command& command, const VolumeStatus& volume) {
  if (command.admin.action == AdminAction::kRemove && volume.is_configured) {
    return fmt::format("brickd's configuration names volume {}: brickd makes it again when it starts", volume.name);
  }
  if (command.admin.action == AdminAction::kResize && volume.size_is_configured) {
    return fmt::format("brickd's configuration has another size for volume {}: that holds again when brickd starts",
                       volume.name);
  }
  return "";
}

void print_table(const std::vector<VolumeStatus>& volumes) {
  size_t width = std::strlen("volume");
  for (const VolumeStatus& volume : volumes) width = std::max(width, volume.name.size());
  fmt::print("{:<{}}  {:>8}  {:>8}  {:>8}  {}\n", "volume", width, "size", "used", "memory", "holder");
  for (const VolumeStatus& volume : volumes) {
    fmt::print("{:<{}}  {:>8}  {:>8}  {:>8}  {}\n", volume.name, width, describe_size(volume),
               size_of_blocks(volume.used_blocks), size_of_blocks(volume.resident_blocks),
               printable(describe_holder(volume)));
  }
}

void print_volumes(const Command& command, const std::vector<VolumeStatus>& volumes) {
  if (command.json) {
    Json list = Json::array();
    for (const VolumeStatus& volume : volumes) list.push_back(to_json(volume));
    print_json({{"volumes", list}});
  } else if (command.admin.action == AdminAction::kList) {
    print_table(volumes);
  }
}

}  // namespace

int run_volume(const Command& command) {
  std::string why;
  Target target{command.source, {}, nullptr};
  auto source = parse_source(command.source, &why);
  if (!source.ok()) return complain(command, why);
  target.source = *source;
  if (source->volume != kDefaultVolume) {
    return complain(command, "a brick is meant here, not a volume of it: name that behind the source");
  }
  const auto answer = Administrator(*source, command.admin_secret_file).ask(command.admin, &why);
  if (!answer.ok()) return complain(command, describe_admin_error(target, answer.error(), why));
  if (answer->status != 0) return complain(command, describe_refusal(command, *answer));
  print_volumes(command, answer->volumes);
  const std::string later = answer->volumes.empty() ? "" : describe_configuration(command, answer->volumes.front());
  if (!later.empty()) fmt::print(stderr, "brickctl: {}\n", later);
  return EXIT_SUCCESS;
}

}  // namespace brickfs
