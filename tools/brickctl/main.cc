// SPDX-License-Identifier: Apache-2.0
// brickctl: raw block calls on a brick, and the check of a whole file system.
#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>

#include "tools/brickctl/commands.h"
#include "transport/base/log.h"
#include "transport/base/size.h"
#include "transport/limits.h"

namespace brickfs {
namespace {

constexpr int kUsage = 2;

struct Arguments {
  Command command;
  std::string address;
  std::string count = "1";
};

// 0x... or what parse_size() takes.
std::optional<uint64_t> parse_number(const std::string& text) {
  if (!text.starts_with("0x") && !text.starts_with("0X")) {
    const auto size = parse_size(text);
    return size.ok() ? std::optional(*size) : std::nullopt;
  }
  uint64_t value = 0;
  const auto [end, status] = std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

CLI::App* add_verb(CLI::App& app, Arguments& arguments, const char* verb, const char* what) {
  CLI::App* sub = app.add_subcommand(verb, what);
  sub->add_option("SOURCE", arguments.command.source, "tcp://HOST[:PORT]/VOLUME, memory:SIZE or file:PATH[,SIZE]")
      ->required();
  sub->add_option("--secret-file", arguments.command.secret_file, "what the brick asks for")->type_name("PATH");
  return sub;
}

void add_block_verb(CLI::App& app, Arguments& arguments, const char* verb, const char* what) {
  CLI::App* sub = add_verb(app, arguments, verb, what);
  sub->add_option("ADDRESS", arguments.address,
                  "of the first block: a multiple of 2M; decimal, 0x hexadecimal, or with K, M, G, T")
      ->required();
  sub->add_option("COUNT", arguments.count, "of blocks (1)");
}

// Throws CLI::Error, as the parser itself does.
void interpret(Arguments& arguments) {
  if (arguments.address.empty()) return;
  const auto address = parse_number(arguments.address);
  if (!address || *address % kBlockBytes != 0) throw CLI::ValidationError("ADDRESS", "a multiple of 2M (2097152)");
  const auto count = parse_number(arguments.count);
  if (!count || *count == 0 || *count > limits::kBlocksPerCall)
    throw CLI::ValidationError("COUNT", "a number from 1 to 4096");
  arguments.command.blocks = {BlockAddress{*address}, *count};
  if (!is_valid(arguments.command.blocks)) throw CLI::ValidationError("ADDRESS", "the range ends past the last block");
}

int run(const Command& command) {
  if (command.verb == "status") return run_status(command);
  if (command.verb == "list") return run_list(command);
  if (command.verb == "check") return run_check_command(command);
  return run_block_call(command);
}

int main(int argc, char** argv) {
  CLI::App app("brickctl makes raw block calls on a brick and checks file systems.", "brickctl");
  app.set_version_flag("--version", std::string("brickctl " BRICKFS_VERSION));
  app.require_subcommand(1);
  Arguments arguments;
  add_verb(app, arguments, "status", "what the brick says about itself and the volume; also while the volume is held");
  add_verb(app, arguments, "list", "`start count` of each run of allocated blocks; also while the volume is held");
  add_block_verb(app, arguments, "alloc", "allocate blocks, which read as zeros");
  add_block_verb(app, arguments, "free", "free blocks");
  add_block_verb(app, arguments, "map", "map blocks and print their handles, which end with this command");
  add_block_verb(app, arguments, "unmap", "revoke this client's handles for blocks");
  add_verb(app, arguments, "check",
           "verify a whole file system; 0: clean, 1: corrected, 4: damage left, 8: not checked");
  try {
    app.parse(argc, argv);
    arguments.command.verb = app.get_subcommands().front()->get_name();
    interpret(arguments);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::Error& error) {
    std::fprintf(stderr, "brickctl: %s (see --help)\n", error.what());
    return kUsage;
  }
  const Status log = set_up_log("brickctl", "warn", LogTarget::kStandardError);
  return log.ok() ? run(arguments.command) : kUsage;
}

}  // namespace
}  // namespace brickfs

int main(int argc, char** argv) { return brickfs::main(argc, argv); }
