// SPDX-License-Identifier: Apache-2.0
#include "server/brickd_options.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "transport/base/size.h"
#include "transport/block.h"

namespace brickfs {
namespace {

constexpr int kUsage = 2;

struct Arguments {
  std::vector<std::string> listen;
  std::vector<std::string> volumes;
  std::string memory;
  std::string file;
  std::string size;
};

uint64_t size_of(const std::string& option, const std::string& text) {
  const auto size = parse_size(text);
  if (!size.ok()) throw CLI::ValidationError(option, size.error().what());
  if (*size < kBlockBytes) throw CLI::ValidationError(option, "at least one block, 2M");
  return *size;
}

VolumeSpec parse_volume(const std::string& text) {
  const size_t colon = text.find(':');
  VolumeSpec volume;
  volume.name = text.substr(0, colon);
  if (!is_volume_name(volume.name)) {
    throw CLI::ValidationError("--volume", "a name has letters, digits, '.', '_' and '-', at most 63");
  }
  if (colon != std::string::npos) volume.quota_bytes = size_of("--volume", text.substr(colon + 1));
  return volume;
}

void define(CLI::App& app, Arguments& arguments, BrickdOptions& options) {
  app.set_version_flag("--version", std::string("brickd " BRICKFS_VERSION));
  app.add_option("--listen", arguments.listen,
                 "tcp://HOST[:PORT] or rdma://HOST[:PORT] to serve at, repeatable (tcp://127.0.0.1:20470; port 0: any)")
      ->type_name("URL")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--memory", arguments.memory, "memory to export; with --file: how much of it may be in memory at once")
      ->type_name("SIZE");
  app.add_option("--file", arguments.file, "store behind the memory: what is committed survives a restart")
      ->type_name("PATH");
  app.add_option("--size", arguments.size, "size of the store when it is made, or grown")->type_name("SIZE");
  app.add_option("--volume", arguments.volumes, "volume besides `default`, repeatable; with `default` too: its quota")
      ->type_name("NAME[:QUOTA]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--secret-file", options.secret_file, "what clients must know")->type_name("PATH");
  app.add_option("--port-file", options.port_file, "told the ports, a line for each listener, once they serve")
      ->type_name("PATH");
  app.add_flag("--foreground", options.foreground, "stay, and log to standard error");
  app.add_option("--log", options.log_level, "trace, debug, info, warn, error or off")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}));
}

// Throws CLI::Error, as the parser itself does.
void interpret(const Arguments& arguments, BrickdOptions& options) {
  std::vector<std::string> urls = arguments.listen;
  if (urls.empty()) urls.push_back("tcp://127.0.0.1");
  for (const std::string& url : urls) {
    std::string why;
    const auto listen = parse_listen_url(url, &why);
    if (!listen.ok()) throw CLI::ValidationError("--listen", why);
    options.listen.push_back(*listen);
  }
  if (arguments.memory.empty() && arguments.file.empty()) throw CLI::ValidationError("--memory or --file is needed");
  if (!arguments.size.empty() && arguments.file.empty()) throw CLI::ValidationError("--size goes with --file");
  if (!arguments.memory.empty()) options.brick.memory_bytes = size_of("--memory", arguments.memory);
  if (!arguments.size.empty()) options.brick.store_bytes = size_of("--size", arguments.size);
  options.brick.store_path = arguments.file;
  options.brick.grace = limits::kGrace;
  for (const std::string& volume : arguments.volumes) options.brick.volumes.push_back(parse_volume(volume));
}

}  // namespace

Result<BrickdOptions> parse_brickd_options(int argc, char** argv) {
  CLI::App app("brickd exports memory as blocks to brickfs clients.", "brickd");
  Arguments arguments;
  BrickdOptions options;
  define(app, arguments, options);
  try {
    app.parse(argc, argv);
    interpret(arguments, options);
  } catch (const CLI::Success& request) {  // --help, --version
    return Error(app.exit(request), "done");
  } catch (const CLI::Error& error) {
    std::fprintf(stderr, "brickd: %s (see --help)\n", error.what());
    return Error(kUsage, "usage");
  }
  return options;
}

}  // namespace brickfs
