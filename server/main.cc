// SPDX-License-Identifier: Apache-2.0
// brickd: options, brick, listeners, then wait for a signal.
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/brick_service.h"
#include "server/brickd_daemon.h"
#include "server/brickd_options.h"
#include "server/tcp_listener.h"
#include "transport/base/log.h"
#include "transport/base/size.h"

namespace brickfs {
namespace {

// One line for people: why brickd does not serve.
using Failure = std::optional<std::string>;

struct Brickd {
  std::unique_ptr<BrickService> service;
  std::vector<std::unique_ptr<TcpListener>> listeners;  // end before the service
};

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  return set;
}

Failure listen(Brickd& brickd, const ListenUrl& url, const Secret& secret) {
  if (url.kind != SourceKind::kTcp) return "rdma:// is not built into this program; use tcp://";
  auto listener = TcpListener::open(*brickd.service, url, secret);
  if (!listener.ok()) {
    return fmt::format("cannot listen on tcp://{}:{}: {}", url.host, url.port, std::strerror(listener.code()));
  }
  brickd.listeners.push_back(std::move(*listener));
  return std::nullopt;
}

// Whole or not at all, for whoever waits for it.
Failure write_port_file(const Brickd& brickd, const std::string& path) {
  std::string text;
  for (const auto& listener : brickd.listeners) text += std::to_string(listener->port()) + "\n";
  const std::string temporary = path + ".new";
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  const bool written = fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written || ::rename(temporary.c_str(), path.c_str()) != 0) {
    return fmt::format("cannot write port file {}: {}", path, std::strerror(errno));
  }
  return std::nullopt;
}

Failure start(Brickd& brickd, const BrickdOptions& options) {
  Secret secret;
  std::string why;
  if (!options.secret_file.empty()) {
    auto read = read_secret_file(options.secret_file, &why);
    if (!read.ok()) return why;
    secret = std::move(*read);
  }
  auto service = BrickService::open(options.brick, &why);
  if (!service.ok()) return why.empty() ? std::strerror(service.code()) : why;
  brickd.service = std::move(*service);
  for (const ListenUrl& url : options.listen) {
    if (auto failure = listen(brickd, url, secret)) return failure;
  }
  return options.port_file.empty() ? std::nullopt : write_port_file(brickd, options.port_file);
}

void announce(const Brickd& brickd, const BrickdOptions& options) {
  for (size_t i = 0; i < brickd.listeners.size(); ++i) {
    spdlog::info("serving at tcp://{}:{}", options.listen[i].host, brickd.listeners[i]->port());
  }
}

int stop(Brickd& brickd) {
  brickd.listeners.clear();
  const Status stopped = brickd.service->stop();
  if (stopped.ok()) {
    spdlog::info("stopped");
    return 0;
  }
  spdlog::error("not everything could be stored: {}: {}", stopped.error().what(), std::strerror(stopped.code()));
  return 1;
}

int run(const BrickdOptions& options) {
  std::optional<Daemon> daemon;
  if (!options.foreground) {
    auto started = Daemon::start();
    if (!started.ok()) {
      std::fprintf(stderr, "brickd: cannot start: %s\n", std::strerror(started.code()));
      return 1;
    }
    daemon.emplace(std::move(*started));
  }
  const Status log =
      set_up_log("brickd", options.log_level, daemon ? LogTarget::kSystemLog : LogTarget::kStandardError);
  std::signal(SIGPIPE, SIG_IGN);
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread: they all inherit it
  Brickd brickd;
  const Failure failure = log.ok() ? start(brickd, options) : log.error().what();
  if (failure) {
    if (daemon) daemon->failed(*failure);
    if (!daemon) std::fprintf(stderr, "brickd: %s\n", failure->c_str());
    return 1;
  }
  announce(brickd, options);
  if (daemon) daemon->serving();
  int signal = 0;
  sigwait(&signals, &signal);
  return stop(brickd);
}

}  // namespace
}  // namespace brickfs

int main(int argc, char** argv) {
  const auto options = brickfs::parse_brickd_options(argc, argv);
  return options.ok() ? brickfs::run(*options) : options.code();
}
