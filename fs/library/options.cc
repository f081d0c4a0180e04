// SPDX-License-Identifier: Apache-2.0
#include "fs/library/options.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <thread>
#include <utility>

#include "transport/membership/client_identity.h"

namespace brickfs::library {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTryAgain{100};
constexpr std::string_view kOfEtcd = "etcd_";
constexpr uint32_t kMostWorkers = 64;
constexpr uint32_t kMostSeconds = 7 * 24 * 3600;

// The next of a list with commas between; quotes protect commas, and go.
std::string next_word(std::string_view& rest) {
  std::string word;
  bool quoted = false;
  size_t used = 0;
  for (; used < rest.size() && (quoted || rest[used] != ','); ++used) {
    if (rest[used] == '"') {
      quoted = !quoted;
    } else {
      word += rest[used];
    }
  }
  rest.remove_prefix(std::min(rest.size(), used + 1));
  return word;
}

Result<uint32_t> parse_number(std::string_view text, int base, uint32_t least, uint32_t most) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most)
    return Error(EINVAL, "not such a number");
  return number;
}

Result<std::chrono::seconds> parse_seconds(std::string_view text, uint32_t least) {
  return std::chrono::seconds(TRY(parse_number(text, 10, least, kMostSeconds)));
}

struct Parsed {
  Options options;
  bool soft = false;
};

Result<bool> set_flag(Parsed& parsed, std::string_view name) {
  Options& options = parsed.options;
  if (name == "ro" || name == "rw") {
    options.read_only = name == "ro";
    options.follow = false;
  } else if (name == "follow") {
    options.read_only = options.follow = true;
  } else if (name == "hard" || name == "soft") {
    parsed.soft = name == "soft";
  } else if (name == "shared" || name == "share") {
    options.shared = true;
  } else if (name == "steal") {
    options.steal = true;
  } else if (name == "durable") {
    options.require_durable = true;
  } else if (name == "over-files") {
    options.over_files = true;
  } else if (name == "noatime") {
    options.no_atime = true;
  } else {
    return false;
  }
  return true;
}

// EINVAL: a bad value; false: no such option.
Result<bool> set_value(Options& options, std::string_view name, std::string_view value) {
  if (name == "secret") {
    if (value.empty()) return Error(EINVAL, "no path");
    options.secret_path = value;
  } else if (name == "tls") {
    const auto mode = parse_tls_mode(value);
    if (!mode) return Error(EINVAL, "no such mode");
    options.tls = *mode;
  } else if (name.starts_with(kOfEtcd)) {
    std::string* const member = etcd_option(options.etcd, name.substr(kOfEtcd.size()));
    if (member == nullptr) return false;
    if (value.empty()) return Error(EINVAL, "no value");
    *member = value;
  } else if (name == "listen") {
    options.listen = value;
  } else if (name == "wait") {
    options.wait = TRY(parse_seconds(value, 0));
  } else if (name == "linger") {
    options.linger = TRY(parse_seconds(value, 0));
  } else if (name == "timeo") {
    options.soft_timeout = TRY(parse_seconds(value, 1));
  } else if (name == "uid") {
    options.uid = TRY(parse_number(value, 10, 0, UINT32_MAX - 1));
  } else if (name == "gid") {
    options.gid = TRY(parse_number(value, 10, 0, UINT32_MAX - 1));
  } else if (name == "umask") {
    options.umask = TRY(parse_number(value, 8, 0, 0777));
  } else if (name == "workers") {
    options.workers = TRY(parse_number(value, 10, 1, kMostWorkers));
  } else {
    return false;
  }
  return true;
}

std::string name_of_client() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("{} (libbrickfs, pid {})", host.data(), getpid()).substr(0, limits::kClientNameBytes);
}

}  // namespace

Result<Options> parse_options(const char* text, std::string* why) {
  Parsed parsed;
  parsed.options.uid = geteuid();
  parsed.options.gid = getegid();
  std::string_view rest = text != nullptr ? text : "";
  while (!rest.empty()) {
    const std::string word = next_word(rest);
    if (word.empty()) continue;
    const size_t equals = word.find('=');
    const auto known = equals == word.npos ? set_flag(parsed, word)
                                           : set_value(parsed.options, std::string_view(word).substr(0, equals),
                                                       std::string_view(word).substr(equals + 1));
    if (known.ok() && *known) continue;
    *why = (known.ok() ? "unknown option: " : "bad value: ") + word;
    return Error(EINVAL, "options");
  }
  if (!parsed.options.listen.empty() && !parsed.options.shared) {
    *why = "option listen: only with shared";
    return Error(EINVAL, "options");
  }
  if (parsed.options.tls != TlsMode::kOff && parsed.options.secret_path.empty()) {
    *why = "option tls: only with secret=PATH, by which both ends encrypt";
    return Error(EINVAL, "options");
  }
  if (parsed.soft) parsed.options.soft = parsed.options.soft_timeout;
  return parsed.options;
}

Result<OpenPlan> plan_open(const char* source, const char* options, std::string* why) {
  OpenPlan plan;
  plan.name = source;
  plan.source = TRY(parse_source(source, why));
  plan.options = TRY(parse_options(options, why));
  plan.secret = TRY(ClientSecret::of_file(plan.options.secret_path, why)).with(plan.options.tls);
  plan.request.volume = plan.source.volume;
  plan.request.client = make_client_id();
  plan.request.client_name = name_of_client();
  plan.request.mode = plan.options.follow      ? OpenMode::kFollow
                      : plan.options.read_only ? OpenMode::kReadOnly
                                               : OpenMode::kExclusive;
  plan.request.steal = plan.options.steal;
  return plan;
}

Status open_when_free(const OpenPlan& plan, const OpenOnce& open, std::string* why) {
  auto until = steady_clock::now() + plan.options.wait;
  for (bool first = true;; first = false) {
    SourceFailure failure{plan.source, plan.name, {}, {}};
    const Status opened = open(failure);
    if (opened.ok()) return {};
    *why = failure.why;
    if (why->empty()) {
      *why = describe_open_failure(
          opened.error(), failure.name, failure.brick, failure.holder, !plan.options.secret_path.empty(),
          {.steal = "option steal", .secret = "option secret=PATH", .shared = "option shared"});
    }
    if (first && plan.options.wait.count() > 0) until += failure.holder.kept_for;
    if (!opened.error().is(EBUSY) || steady_clock::now() >= until) return opened;
    std::this_thread::sleep_for(kTryAgain);
  }
}

Status check_durability(const OpenPlan& plan, Durability durability, std::string* why) {
  if (!plan.options.require_durable || durability == Durability::kDurable) return {};
  *why =
      fmt::format("{} is volatile and option durable asks for a durable one (brickd --file, or file:PATH)", plan.name);
  return Error(ENOTSUP, "durability");
}

}  // namespace brickfs::library
