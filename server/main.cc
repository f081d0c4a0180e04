// SPDX-License-Identifier: Apache-2.0
// brickd: options, brick, listeners, then wait for a signal.
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/brickd_daemon.h"
#include "server/brickd_history.h"
#include "server/brickd_listeners.h"
#include "server/brickd_metrics.h"
#include "server/brickd_notify.h"
#include "server/brickd_options.h"
#include "server/brickd_page.h"
#include "server/brickd_sets.h"
#include "server/port_file.h"
#include "server/service/brick_service.h"
#include "transport/base/journal.h"
#include "transport/base/log.h"
#include "transport/base/printable.h"
#include "transport/base/progress_bar.h"
#include "transport/base/size.h"
#include "transport/brick/secret_file.h"
#include "transport/metrics/metrics_server.h"

namespace brickfs {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kBetweenNotices{5};
constexpr std::chrono::seconds kDiskMayTake{300};  // for one block, or for the sync behind the last one

// One line for people: why brickd does not serve.
using Failure = std::optional<std::string>;

struct Brickd {
  std::unique_ptr<BrickService> service;
  std::optional<BrickListeners> listeners;  // ends before the service
  // These ask the others, and go first.
  std::unique_ptr<MetricsServer> metrics;
  std::unique_ptr<BrickHistory> history;
  std::unique_ptr<BrickSets> sets;
  std::unique_ptr<PageServer> page;
};

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  return set;
}

// Null: the line in `why`.
std::optional<BrickSecrets> read_secrets_of(const BrickdOptions& options, std::string* why) {
  BrickSecrets secrets;
  for (const auto& [path, those] : {std::pair{&options.secret_file, &secrets.clients},
                                    std::pair{&options.admin_secret_file, &secrets.administrators}}) {
    if (path->empty()) continue;
    auto read = read_secrets(*path, why);
    if (!read.ok()) return std::nullopt;
    *those = std::move(*read);
  }
  for (const Secret& one : secrets.administrators) {
    if (std::ranges::none_of(secrets.clients, [&](const Secret& client) { return same_secret(client, one); })) continue;
    *why = "the administrator's secret is the clients': " + options.admin_secret_file + " needs one of its own";
    return std::nullopt;
  }
  return secrets;
}

// How many, where it is not one as ever: the others are for a change, and are to go again.
std::string describe(const BrickSecrets& secrets) {
  std::string text;
  if (secrets.clients.size() > 1) text += fmt::format("; {} secrets of clients hold", secrets.clients.size());
  if (secrets.administrators.size() > 1)
    text += fmt::format("; {} secrets of administrators hold", secrets.administrators.size());
  return text;
}

Failure serve_page(Brickd& brickd, const BrickdOptions& options) {
  const PageAddress& address = *options.http;
  if (!options.etcd.empty()) {
    std::string why;
    auto etcd = EtcdClient::open(options.etcd, options.etcd_options, &why);
    if (!etcd.ok()) return "--etcd: " + why;
    brickd.sets = std::make_unique<BrickSets>(*brickd.service, brickd.listeners->urls(), std::move(*etcd));
  }
  brickd.history = std::make_unique<BrickHistory>(*brickd.service, brickd.listeners->all());
  auto server = PageServer::start(address, pages_of_brick(*brickd.service, *brickd.history, brickd.sets.get()));
  if (!server.ok()) {
    return fmt::format("cannot serve a page at {}: {}", format_address({address.host, address.port}),
                       std::strerror(server.code()));
  }
  brickd.page = std::move(*server);
  log::info("a page about the brick: http://{}/", format_address({address.host, brickd.page->port()}));
  return std::nullopt;
}

Failure serve_metrics(Brickd& brickd, const MetricsAddress& address) {
  auto server = MetricsServer::start(
      address, [&brickd](Metrics& metrics) { collect_metrics(*brickd.service, brickd.listeners->all(), metrics); });
  if (!server.ok()) {
    return fmt::format("cannot serve metrics at {}: {}", format_address({address.host, address.port}),
                       std::strerror(server.code()));
  }
  brickd.metrics = std::move(*server);
  log::info("metrics for Prometheus: http://{}/metrics", format_address({address.host, brickd.metrics->port()}));
  return std::nullopt;
}

Failure tell_ports(const Brickd& brickd, const std::string& path) {
  std::string text;
  for (const ListenUrl& url : brickd.listeners->urls()) text += std::to_string(url.port) + "\n";
  if (brickd.metrics != nullptr) text += std::to_string(brickd.metrics->port()) + "\n";
  if (brickd.page != nullptr) text += std::to_string(brickd.page->port()) + "\n";
  std::string why;
  return write_port_file(path, text, &why).ok() ? std::nullopt : Failure(why);
}

Failure start(Brickd& brickd, const BrickdOptions& options, std::shared_ptr<MemoryKeeper> keeper) {
  std::string why;
  const auto secrets = read_secrets_of(options, &why);
  if (!secrets) return why;
  BrickConfig config = options.brick;
  config.keeper = std::move(keeper);
  auto service = BrickService::open(config, &why);
  if (!service.ok()) return why.empty() ? std::strerror(service.code()) : why;
  brickd.service = std::move(*service);
  auto listeners = BrickListeners::open(*brickd.service, options.listen, *secrets, options.tls, &why);
  if (!listeners.ok()) return why;
  brickd.listeners = std::move(*listeners);
  if (options.http) {
    if (auto failure = serve_page(brickd, options)) return failure;
  }
  if (options.metrics) {
    if (auto failure = serve_metrics(brickd, *options.metrics)) return failure;
  }
  return options.port_file.empty() ? std::nullopt : tell_ports(brickd, options.port_file);
}

void announce(const Brickd& brickd) {
  std::string all;
  for (const ListenUrl& url : brickd.listeners->urls()) {
    const std::string text = format_listen_url(url);
    log::info("serving at {}", text);
    all += (all.empty() ? "" : ", ") + text;
  }
  notify_service_manager("READY=1\nSTATUS=serving at " + all);
}

int wait_for(const sigset_t& signals) {
  int signal = 0;
  sigwait(&signals, &signal);
  return signal;
}

// Nothing else is read again. Sessions that are open go on.
void read_secrets_again(Brickd& brickd, const BrickdOptions& options) {
  const bool has_both = !options.secret_file.empty() && !options.admin_secret_file.empty();
  const std::string paths = options.secret_file + (has_both ? " and " : "") + options.admin_secret_file;
  if (paths.empty()) return log::info("SIGHUP: there is no secret file to read again");
  std::string why;
  const auto secrets = read_secrets_of(options, &why);
  if (!secrets) return log::error("SIGHUP: {}: the former secret stays in force", why);
  brickd.listeners->use(*secrets);
  log::info("SIGHUP: the secret is what {} has now{}; sessions that are open go on", paths, describe(*secrets));
}

// On the terminal or in the log, and to the service manager, who would end what takes long.
Progress progress_of_stop(LogTarget log) {
  return [show = progress_for_people(log), next = steady_clock::now()](std::string_view what, uint64_t done,
                                                                       uint64_t total) mutable {
    show(what, done, total);
    if (done < total && steady_clock::now() < next) return;
    next = steady_clock::now() + kBetweenNotices;
    notify_service_manager(fmt::format("EXTEND_TIMEOUT_USEC={}\nSTATUS={} of {} {}",
                                       std::chrono::microseconds(kDiskMayTake).count(), done, total, what));
  };
}

int stop(Brickd& brickd, LogTarget log) {
  notify_service_manager("STOPPING=1\nSTATUS=writing to the store what is in memory only");
  brickd.page.reset();
  if (brickd.sets != nullptr) brickd.sets->end();
  brickd.history.reset();
  brickd.metrics.reset();
  brickd.listeners.reset();
  const Status stopped = brickd.service->stop(progress_of_stop(log));
  if (stopped.ok()) {
    log::info("stopped");
    return 0;
  }
  log::error("not everything could be stored: {}", describe(stopped.error()));
  return 1;
}

// A connection takes one. What a shell begins with is meant for programs that use select().
void allow_many_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

int run(const BrickdOptions& options) {
  std::shared_ptr<MemoryKeeper> keeper;
  if (options.keeps_in_service_manager) {
    auto manager = service_manager_as_keeper();
    if (!manager.ok()) {
      print_error(fmt::format("brickd: --keep-memory systemd: {}", manager.error().what()));
      return 2;
    }
    keeper = std::move(*manager);
  }
  std::optional<Daemon> daemon;
  if (!options.foreground) {
    auto started = Daemon::start();
    if (!started.ok()) {
      print_error(fmt::format("brickd: cannot start: {}", std::strerror(started.code())));
      return 1;
    }
    daemon.emplace(std::move(*started));
  }
  const LogTarget log_target = daemon ? LogTarget::kSystemLog : LogTarget::kStandardError;
  const Status log = set_up_log("brickd", options.log_level, log_target);
  std::signal(SIGPIPE, SIG_IGN);
  allow_many_descriptors();
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread: they all inherit it
  Brickd brickd;
  notify_service_manager("STATUS=opening the brick");
  const Failure failure = log.ok() ? start(brickd, options, std::move(keeper)) : log.error().what();
  if (failure) {
    if (daemon) daemon->failed(*failure);
    if (!daemon) print_error("brickd: " + printable(*failure));
    notify_service_manager("STATUS=" + printable(*failure));
    return 1;
  }
  announce(brickd);
  if (daemon) daemon->serving();
  while (wait_for(signals) == SIGHUP) read_secrets_again(brickd, options);
  const int exit_code = stop(brickd, log_target);
  if (brickd.sets != nullptr && !brickd.sets->end()) {  // a call of etcd, or of the resolver, is not waited for
    std::fflush(nullptr);
    ::_exit(exit_code);
  }
  return exit_code;
}

}  // namespace
}  // namespace brickfs

int main(int argc, char** argv) {
  const auto options = brickfs::parse_brickd_options(argc, argv);
  return options.ok() ? brickfs::run(*options) : options.code();
}
