// SPDX-License-Identifier: Apache-2.0
#include "server/brickd_options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "server/brickd_config.h"
#include "server/brickd_sets.h"
#include "transport/base/journal.h"
#include "transport/base/size.h"
#include "transport/brick/block.h"
#include "transport/brick/volume_name.h"
#include "transport/etcd/etcd_command_line.h"

namespace brickfs {
namespace {

constexpr int kUsage = 2;

struct Arguments {
  std::vector<std::string> listen;
  std::vector<std::string> volumes;
  std::string memory;
  std::string keep_memory;
  std::string file;
  std::string size;
  std::string tls = "on";
  std::string metrics;
  std::string http;
  std::string etcd;
};

constexpr const char* kServiceManager = "systemd";

// What a value is checked by, on the command line and in each line of a file: why it is refused, or nothing.
std::string refuse_size(const std::string& text) {
  const auto size = parse_size(text);
  if (!size.ok()) return size.error().what();
  return *size < kBlockBytes ? "at least one block, 2M" : "";
}

std::string refuse_keep(const std::string& text) {
  return text == kServiceManager || text.starts_with('/') ? "" : "'systemd', or a path from / on";
}

std::string refuse_volume(const std::string& text) {
  const size_t colon = text.find(':');
  if (!is_volume_name(text.substr(0, colon))) return kVolumeNameRule;
  return colon == std::string::npos ? "" : refuse_size(text.substr(colon + 1));
}

std::string refuse_url(const std::string& text) {
  std::string why;
  return parse_listen_url(text, &why).ok() ? "" : why;
}

std::string refuse_address(const std::string& text) {
  const auto address = parse_page_address(text);
  return address.ok() ? "" : address.error().what();
}

std::string refuse_endpoints(const std::string& text) {
  std::string why;
  return parse_etcd_endpoints(text, &why).ok() ? "" : why;
}

VolumeSpec parse_volume(const std::string& text) {
  const size_t colon = text.find(':');
  VolumeSpec volume;
  volume.name = text.substr(0, colon);
  if (colon != std::string::npos) volume.quota_bytes = *parse_size(text.substr(colon + 1));
  return volume;
}

// All that may stand in a configuration file, too.
void define(CLI::App& app, Arguments& arguments, BrickdOptions& options) {
  app.add_option("--listen", arguments.listen,
                 "tcp://HOST[:PORT], rdma://HOST[:PORT] or fabric://HOST[:PORT] to serve at, repeatable "
                 "(tcp://127.0.0.1:20470; port 0: any)")
      ->type_name("URL")
      ->check(refuse_url)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--memory", arguments.memory, "memory to export; with --file: how much of it may be in memory at once")
      ->type_name("SIZE")
      ->check(refuse_size);
  app.add_option("--keep-memory", arguments.keep_memory,
                 "memory without --file outlives brickd: in a file at PATH on tmpfs or hugetlbfs, or with `systemd`")
      ->type_name("PATH")
      ->check(refuse_keep);
  app.add_option("--file", arguments.file, "store behind the memory: what is committed survives a restart")
      ->type_name("PATH");
  app.add_option("--size", arguments.size, "size of the store: when it is made, or another from now on")
      ->type_name("SIZE")
      ->check(refuse_size);
  app.add_flag("--repair-store", options.brick.repair_store,
               "give up blocks whose entries in the store's table are damaged, so that their room can be used again");
  app.add_option("--volume", arguments.volumes, "volume besides `default`, repeatable; with `default` too: its quota")
      ->type_name("NAME[:QUOTA]")
      ->check(refuse_volume)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--secret-file", options.secret_file, "what clients must know")->type_name("PATH");
  app.add_option("--admin-secret-file", options.admin_secret_file,
                 "what administrators must know, who make and remove volumes (brickctl volume)")
      ->type_name("PATH");
  app.add_option("--tls", arguments.tls,
                 "TLS on tcp://, by the secrets and keys that clients have: on: of who asks for it; require: of "
                 "everybody; off (on)")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"off", "on", "require"}));
  app.add_option("--metrics", arguments.metrics, "serve metrics for Prometheus there, at /metrics (port 0: any)")
      ->type_name("ADDR:PORT")
      ->check(refuse_address);
  app.add_option("--http", arguments.http, "serve a page about the brick there, for a browser (port 0: any)")
      ->type_name("ADDR:PORT")
      ->check(refuse_address);
  app.add_option("--etcd", arguments.etcd,
                 "etcd that has the maps of replicated sets, which the page of --http shows then")
      ->type_name("HOST[:PORT][,HOST[:PORT]]")
      ->check(refuse_endpoints);
  add_etcd_options(app, options.etcd_options);
  app.add_option("--port-file", options.port_file,
                 "told the ports, a line for each listener, then those of --metrics and --http, once they serve")
      ->type_name("PATH");
  app.add_flag("--foreground", options.foreground, "stay, and log to standard error");
  app.add_option("--log", options.log_level, "trace, debug, info, warn, error or off")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}));
}

// Nobody is let in who cannot be asked for it, and nothing is carried that is not encrypted.
void check_tls(const BrickdOptions& options) {
  if (options.tls != TlsMode::kRequire) return;
  if (options.secret_file.empty() && options.admin_secret_file.empty())
    throw CLI::ValidationError("--tls require goes with --secret-file or --admin-secret-file");
  for (const ListenUrl& url : options.listen) {
    if (url.kind == SourceKind::kTcp) continue;
    throw CLI::ValidationError(
        fmt::format("--tls require: data over {} is not encrypted: listen at tcp:// alone", format_listen_url(url)));
  }
}

// Throws CLI::Error, as the parser itself does.
void interpret(const Arguments& arguments, BrickdOptions& options) {
  std::vector<std::string> urls = arguments.listen;
  if (urls.empty()) urls.push_back("tcp://127.0.0.1");
  for (const std::string& url : urls) {
    std::string why;
    options.listen.push_back(*parse_listen_url(url, &why));
  }
  if (arguments.memory.empty() && arguments.file.empty()) throw CLI::ValidationError("--memory or --file is needed");
  if (!arguments.size.empty() && arguments.file.empty()) throw CLI::ValidationError("--size goes with --file");
  if (options.brick.repair_store && arguments.file.empty())
    throw CLI::ValidationError("--repair-store goes with --file");
  if (!arguments.memory.empty()) options.brick.memory_bytes = *parse_size(arguments.memory);
  if (!arguments.size.empty()) options.brick.store_bytes = *parse_size(arguments.size);
  const bool kept = !arguments.keep_memory.empty();
  if (kept && !arguments.file.empty()) throw CLI::ValidationError("--keep-memory goes without --file");
  options.keeps_in_service_manager = arguments.keep_memory == kServiceManager;
  if (options.keeps_in_service_manager && !options.foreground) {
    throw CLI::ValidationError("--keep-memory systemd goes with --foreground");
  }
  if (kept && !options.keeps_in_service_manager) options.brick.keep_path = arguments.keep_memory;
  if (!arguments.metrics.empty()) options.metrics = *parse_metrics_address(arguments.metrics);
  if (!arguments.http.empty()) options.http = *parse_page_address(arguments.http);
  if (!arguments.etcd.empty() && !options.http) throw CLI::ValidationError("--etcd goes with --http");
  if (!arguments.etcd.empty()) options.etcd = *parse_etcd_endpoints(arguments.etcd, nullptr);
  if (options.etcd.empty() && options.etcd_options != EtcdOptions{}) {
    throw CLI::ValidationError("--etcd-... options go with --etcd");
  }
  options.tls = *parse_tls_mode(arguments.tls);
  check_tls(options);
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
  app.set_version_flag("--version", std::string("brickd " BRICKFS_VERSION));
  app.set_config("--config", "", "file with any of these options, one a line: brickd.conf(5)")->type_name("PATH");
  Arguments tried;  // line by line
  BrickdOptions tried_options;
  const auto define_line = [&](CLI::App& line) { define(line, tried, tried_options); };
  app.config_formatter(std::make_shared<BrickdConfig>(app, define_line));
  try {
    app.parse(argc, argv);
    interpret(arguments, options);
  } catch (const CLI::Success& request) {  // --help, --version
    return Error(app.exit(request), "done");
  } catch (const CLI::Error& error) {
    print_error(fmt::format("brickd: {} (see --help)", error.what()));
    return Error(kUsage, "usage");
  }
  return options;
}

}  // namespace brickfs
