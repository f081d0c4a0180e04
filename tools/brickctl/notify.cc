// SPDX-License-Identifier: Apache-2.0
// brickctl notify and wait: notifications of a volume (docs/protocol.md, "Notifications") for scripts.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>

#include "tools/brickctl/commands.h"
#include "tools/brickctl/json.h"
#include "tools/brickctl/target.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr int kNothingCame = 3;

// Beside whoever has the volume.
Result<Target> follow(const Command& command, std::string* why) {
  Target target = TRY(make_target(command.source, command.secret_file, why));
  TRY(open_session(target, OpenMode::kFollow, why));
  return target;
}

// How it stands when it is not as `seen` any more, or when the time is over.
Result<calls::Notice> wait_for(Brick& brick, const calls::Seen& seen, const std::optional<double>& seconds) {
  const auto begun = Clock::now();
  for (;;) {
    milliseconds patience = limits::kWaitMost;
    if (seconds) {
      const auto left = std::chrono::duration<double>(*seconds) - (Clock::now() - begun);
      patience = std::clamp(std::chrono::ceil<milliseconds>(left), milliseconds(0), limits::kWaitMost);
    }
    const auto notices = TRY(brick.wait_for_notices({&seen, 1}, patience));
    const calls::Notice& now = notices.front();
    if (now.origin != seen.origin || now.count != seen.count || patience < limits::kWaitMost) return now;
  }
}

Json news_in(const calls::Notice& now, const calls::Seen& seen) {
  if (now.origin == seen.origin) return now.count - seen.count;
  return seen.origin == 0 ? Json(now.count) : Json();
}

}  // namespace

int run_notify(const Command& command) {
  std::string why;
  auto target = follow(command, &why);
  if (!target.ok()) return fail(command, why);
  const Status told = target->brick->notify(command.notice.tag, command.notice.value);
  if (!told.ok()) return fail(command, describe_call_error(told.error()));
  static_cast<void>(target->brick->close());  // it leaves nothing behind
  if (command.json) {
    print_json({{"source", command.source}, {"tag", command.notice.tag}, {"value", command.notice.value}});
  }
  return EXIT_SUCCESS;
}

int run_wait(const Command& command) {
  const NoticeOptions& options = command.notice;
  std::string why;
  auto target = follow(command, &why);
  if (!target.ok()) return fail(command, why);
  calls::Seen seen{options.tag, 0, 0};
  if (options.seen) {
    seen.origin = options.seen->first;
    seen.count = options.seen->second;
  } else {  // what has been until now is not waited for
    const auto before = wait_for(*target->brick, seen, 0.0);
    if (!before.ok()) return fail(command, describe_call_error(before.error()));
    seen.origin = before->origin;
    seen.count = before->count;
  }
  const auto now = wait_for(*target->brick, seen, options.timeout_seconds);
  if (!now.ok()) return fail(command, describe_call_error(now.error()));
  static_cast<void>(target->brick->close());
  if (now->origin == seen.origin && now->count == seen.count)
    return fail(command, fmt::format("no notification of tag {} came", options.tag), kNothingCame);
  const std::string mark = fmt::format("{}:{}", now->origin, now->count);
  if (command.json) {
    print_json({{"source", command.source},
                {"tag", options.tag},
                {"value", now->value},
                {"news", news_in(*now, seen)},
                {"seen", mark}});
  } else {
    fmt::print("{} {}\n", now->value, mark);
  }
  return EXIT_SUCCESS;
}

}  // namespace brickfs
