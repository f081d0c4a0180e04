// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/commands.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "fs/operations/files_on_brick.h"
#include "tools/brickctl/check.h"
#include "tools/brickctl/json.h"
#include "tools/brickctl/open_volume.h"
#include "tools/brickctl/target.h"
#include "transport/base/local_time.h"
#include "transport/base/printable.h"
#include "transport/base/size.h"
#include "transport/brick/store_trouble.h"
#include "transport/membership/coordinator_name.h"
#include "transport/volume/volume_set.h"

namespace brickfs {
namespace {

// A target with a session on it, or why not.
Result<Target> open_target(const Command& command, OpenMode mode, std::string* why) {
  Target target = TRY(make_target(command.source, command.secret_file, why));
  TRY(open_session(target, mode, why));
  return target;
}

std::string describe_blocks(uint64_t count) {
  return fmt::format("{} blocks ({})", count, format_size(count * kBlockBytes));
}

std::string describe_holder(const BrickStat& stat) {
  if (!stat.holder) return "none";
  return fmt::format("{} since {}{}", stat.holder->name, local_time(stat.holder->since_unix_seconds),
                     stat.holder->kept_for.count() > 0 ? describe_grace(*stat.holder)
                     : stat.holder_away                ? " (not connected)"
                                                       : "");
}

void print_stat(const Target& target, const BrickStat& stat) {
  const auto line = [](const char* key, const std::string& value) {
    fmt::print("{:<16} {}\n", std::string(key) + ":", printable(value));
  };
  line("source", target.text);
  line("volume", target.source.volume);
  line("transport", stat.transport);
  line("medium", stat.medium);
  line("durability", stat.durability == Durability::kDurable ? "durable" : "volatile");
  line("boot id", fmt::format("{:016x}", static_cast<uint64_t>(stat.boot)));
  line("epoch", std::to_string(static_cast<uint64_t>(stat.epoch)));
  line("holder", describe_holder(stat));
  line("capacity", describe_blocks(stat.volume_capacity_blocks));
  line("used", describe_blocks(stat.volume_used_blocks));
  line("mapped", describe_blocks(stat.volume_mapped_blocks));
  line("available", describe_blocks(stat.allocatable_blocks));
  line("brick capacity", describe_blocks(stat.brick_capacity_blocks));
  line("brick used", describe_blocks(stat.brick_used_blocks));
  line("memory", describe_blocks(stat.memory_blocks));
  line("in memory", describe_blocks(stat.resident_blocks));
  line("sessions", std::to_string(stat.sessions));
  line("commits", std::to_string(stat.commits));
  line("committed bytes", std::to_string(stat.committed_bytes));
}

Json to_json(const Target& target, const BrickStat& stat) {
  Json holder;
  if (stat.holder) {
    const auto shared_at = address_of_coordinator(stat.holder->name);
    holder = {{"name", stat.holder->name},
              {"shared_at", shared_at ? Json(format_address(*shared_at)) : Json()},
              {"since", stat.holder->since_unix_seconds},
              {"connected", !stat.holder_away},
              {"kept_for_ms", stat.holder->kept_for.count()}};
  }
  const auto bytes = [](uint64_t blocks) { return blocks * kBlockBytes; };
  return {{"source", target.text},
          {"volume", target.source.volume},
          {"transport", stat.transport},
          {"medium", stat.medium},
          {"trouble", store_trouble(stat.medium)},
          {"durable", stat.durability == Durability::kDurable},
          {"boot_id", fmt::format("{:016x}", static_cast<uint64_t>(stat.boot))},
          {"epoch", static_cast<uint64_t>(stat.epoch)},
          {"holder", holder},
          {"capacity_bytes", bytes(stat.volume_capacity_blocks)},
          {"used_bytes", bytes(stat.volume_used_blocks)},
          {"mapped_bytes", bytes(stat.volume_mapped_blocks)},
          {"available_bytes", bytes(stat.allocatable_blocks)},
          {"brick_capacity_bytes", bytes(stat.brick_capacity_blocks)},
          {"brick_used_bytes", bytes(stat.brick_used_blocks)},
          {"memory_bytes", bytes(stat.memory_blocks)},
          {"in_memory_bytes", bytes(stat.resident_blocks)},
          {"sessions", stat.sessions},
          {"commits", stat.commits},
          {"committed_bytes", stat.committed_bytes}};
}

Status map_and_print(Brick& brick, BlockRange blocks, bool json) {
  const auto handles = TRY(brick.map(blocks, Access::kReadWrite));
  if (json) {
    Json list = Json::array();
    for (const Handle& handle : handles) {
      Json one = to_json(handle.blocks);
      one["address"] = handle.remote_address;
      one["key"] = handle.remote_key;
      list.push_back(one);
    }
    print_json({{"handles", list}});
    return {};
  }
  for (const Handle& handle : handles) {
    fmt::print("{} {} address {:#x} key {:#x} read-write\n", raw(handle.blocks.start), handle.blocks.count,
               handle.remote_address, handle.remote_key);
  }
  fmt::print(stderr, "brickctl: these handles end with this process\n");
  return {};
}

Status call(Brick& brick, const Command& command) {
  if (command.verb == "alloc") return brick.alloc(command.blocks);
  if (command.verb == "free") return brick.free(command.blocks);
  if (command.verb == "unmap") return brick.unmap(command.blocks);
  return map_and_print(brick, command.blocks, command.json);
}

}  // namespace

int fail(const Command& command, const std::string& why, int exit_code) {
  fmt::print(stderr, "brickctl: {}: {}\n", printable(command.source), printable(why));
  return exit_code;
}

namespace {

// The command for each brick of the source, by place. A source that cannot be read is left to the command itself.
std::vector<Command> each_brick(const Command& command) {
  const auto source = parse_source(command.source, nullptr);
  if (!source.ok() || !source->is_set()) return {command};
  std::vector<Command> commands;
  for (size_t place = 0; place < source->bricks(); ++place) {
    commands.push_back(command);
    commands.back().source = format_source(source->brick(place));
  }
  return commands;
}

}  // namespace

// Of a set one brick after the other: what cannot be asked does not keep the others from answering.
int run_status(const Command& command) {
  int exit_code = EXIT_SUCCESS;
  Json all = Json::array();
  const std::vector<Command> commands = each_brick(command);
  for (const Command& one : commands) {
    std::string why;
    auto target = open_target(one, OpenMode::kObserve, &why);
    const auto stat = target.ok() ? target->brick->stat() : Result<BrickStat>(target.error());
    if (!stat.ok()) {
      exit_code = fail(one, target.ok() ? describe_call_error(stat.error()) : why);
      continue;
    }
    if (command.json) {
      all.push_back(to_json(*target, *stat));
    } else {
      if (&one != &commands.front()) fmt::print("\n");
      print_stat(*target, *stat);
    }
  }
  if (!command.json || (commands.size() == 1 && all.empty())) return exit_code;
  if (commands.size() == 1) {
    print_json(all[0]);
  } else {
    print_json({{"bricks", all}});
  }
  return exit_code;
}

int run_list(const Command& command) {
  std::string why;
  auto target = open_target(command, OpenMode::kObserve, &why);
  if (!target.ok()) return fail(command, why);
  Json extents = Json::array();
  BlockRange run;  // extents that touch are one, also across pages
  std::optional<BlockAddress> cursor = BlockAddress{0};
  const auto flush = [&] {
    if (run.count > 0 && command.json) extents.push_back(to_json(run));
    if (run.count > 0 && !command.json) fmt::print("{} {}\n", raw(run.start), run.count);
  };
  while (cursor) {
    const auto page = target->brick->list(*cursor);
    if (!page.ok()) return fail(command, describe_call_error(page.error()));
    for (const BlockRange& extent : page->extents) {
      if (run.count > 0 && run.end() == extent.start) {
        run.count += extent.count;
      } else {
        flush();
        run = extent;
      }
    }
    cursor = page->cursor;
  }
  flush();
  if (command.json) print_json({{"extents", extents}});
  return EXIT_SUCCESS;
}

namespace {

// What is allocated, freed or written by its handle behind a file system's back damages that.
Status check_no_files(const Command& command, Brick& brick) {
  if (command.verb == "unmap" || command.over_files || !TRY(has_files(brick))) return {};
  return Error(
      ENOTEMPTY,
      "the volume has files, or is part of a set: `brickctl volume remove` removes it whole, --over-files does "
      "this all the same");
}

}  // namespace

int run_block_call(const Command& command) {
  std::string why;
  auto target = open_target(command, OpenMode::kExclusive, &why);
  if (!target.ok()) return fail(command, why);
  Status status = check_no_files(command, *target->brick);
  if (status.ok()) status = call(*target->brick, command);
  // Nobody else may commit what this did, so that a durable brick keeps it.
  if (status.ok() && (command.verb == "alloc" || command.verb == "free")) status = target->brick->commit({});
  const Status closed = target->brick->close();  // in any case: who just goes is held to be away and coming back
  if (status.ok()) status = closed;
  if (status.ok() && command.json && command.verb != "map") print_json(to_json(command.blocks));
  return status.ok() ? EXIT_SUCCESS : fail(command, describe_call_error(status.error()));
}

int run_check_command(const Command& command) {
  std::string why;
  auto volume = open_volume(command, command.repair ? OpenMode::kExclusive : OpenMode::kReadOnly, &why);
  if (!volume.ok()) return fail(command, why, kCheckFailed);
  const int exit_code = run_check(**volume, command);
  const Status closed = (*volume)->close();  // a reader leaves nothing behind
  static_cast<void>(closed);
  return exit_code;
}

}  // namespace brickfs
