// SPDX-License-Identifier: Apache-2.0
#include "transport/base/log.h"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/syslog_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <system_error>

#include "transport/base/journal.h"
#include "transport/base/printable.h"

namespace brickfs {
namespace {

constexpr std::array<std::string_view, 6> kLevels = {"trace", "debug", "info", "warn", "error", "off"};

log::Level level_of(spdlog::level::level_enum level) {
  if (level <= spdlog::level::debug) return log::Level::kDebug;
  if (level == spdlog::level::info) return log::Level::kInfo;
  return level == spdlog::level::warn ? log::Level::kWarning : log::Level::kError;
}

// %* in a pattern.
class JournalPrefix final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/, spdlog::memory_buf_t& line) override {
    const std::string_view prefix = journal_prefix(level_of(message.level));
    line.append(prefix.data(), prefix.data() + prefix.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<JournalPrefix>(); }
};

std::shared_ptr<spdlog::logger> make_logger(std::string_view program, LogTarget target) {
  const std::string name(program);
  auto logger = std::make_shared<spdlog::logger>(name);
  if (target != LogTarget::kSystemLog) {
    logger->sinks().push_back(std::make_shared<spdlog::sinks::stderr_sink_mt>());
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<JournalPrefix>('*').set_pattern("%*%n: %l: %v");
    logger->sinks().back()->set_formatter(std::move(formatter));
    if (target == LogTarget::kBoth) logger->sinks().back()->set_level(spdlog::level::warn);
  }
  if (target != LogTarget::kStandardError) {
    logger->sinks().push_back(std::make_shared<spdlog::sinks::syslog_sink_mt>(name, LOG_PID, LOG_DAEMON, false));
  }
  return logger;
}

[[noreturn]] void end_with_reason() {
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    constexpr std::string_view kLine = "out of memory\n";  // a log line would need some
    static_cast<void>(!::write(STDERR_FILENO, kLine.data(), kLine.size()));
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      log::error(
          "no thread can be started: raise the limit on processes (ulimit -u, the cgroup's pids.max, "
          "kernel.threads-max)");
      _exit(EXIT_FAILURE);
    }
    log::error("{}", error.what());
  } catch (const std::exception& error) {
    log::error("{}", error.what());
  }
  std::abort();
}

}  // namespace

Status set_up_log(std::string_view program, std::string_view level, LogTarget target) {
  bool known = false;
  for (std::string_view name : kLevels) known = known || name == level;
  if (!known) return Error(EINVAL, "log level is one of trace, debug, info, warn, error, off");
  auto logger = make_logger(program, target);
  logger->set_level(spdlog::level::from_str(std::string(level)));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  std::set_terminate(end_with_reason);
  return {};
}

namespace log {
namespace {

std::atomic<const Sink*> current_sink{nullptr};

spdlog::level::level_enum level_of(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
    case Level::kOff:
      break;
  }
  return spdlog::level::off;
}

}  // namespace

void set_level(Level level) { spdlog::set_level(level_of(level)); }

void set_sink(const Sink* sink) { current_sink.store(sink); }

void line(Level level, fmt::string_view format, fmt::format_args arguments) {
  if (const Sink* const sink = current_sink.load()) {
    if (level >= sink->level) sink->line(sink->context, level, printable(fmt::vformat(format, arguments)).c_str());
    return;
  }
  spdlog::logger& logger = *spdlog::default_logger_raw();
  if (!logger.should_log(level_of(level))) return;
  logger.log(level_of(level), spdlog::string_view_t(printable(fmt::vformat(format, arguments))));
}

}  // namespace log

}  // namespace brickfs
