// SPDX-License-Identifier: Apache-2.0
// brickctl handover: another machine is to coordinate a shared volume. The brick (or the map of a set) tells who does
// now and where, that one is asked, and who has the volume is looked at until another has.
#include "fs/shared/handover.h"

#include <fmt/core.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "fs/source/source_volume.h"
#include "tools/brickctl/commands.h"
#include "tools/brickctl/json.h"
#include "transport/base/printable.h"
#include "transport/membership/coordinator_name.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kHandoverTakes{60};
constexpr milliseconds kLookAtTaker{20};
constexpr seconds kBegins{10};  // one that has just taken the volume, and whose members come to it yet
constexpr milliseconds kAskedAgain{100};

// The coordinator's name, without where it is.

std::string why_not_asked(const Holder& holder, const Error& error) {
  const std::string name = printable(plain_name(holder.name));
  if (error.is(EACCES) || error.is(EKEYREJECTED))
    return fmt::format("{}, who coordinates it, has another secret (--secret-file)", name);
  if (error.is(ECONNRESET) || error.is(ENOTCONN) || error.is(EPIPE))
    return fmt::format("{}, who coordinates it, is of a version that cannot hand over", name);
  return fmt::format("{}, who coordinates it, cannot be asked: {}", name, describe(error));
}

// Until another one has the volume.
Result<Holder> await_taker(const Source& source, const SourceAccess& access, const Holder& former) {
  const auto until = steady_clock::now() + kHandoverTakes;
  while (steady_clock::now() < until) {
    const auto holder = find_holder(source, access);
    if (holder.ok() && *holder && (*holder)->client != former.client) return **holder;
    std::this_thread::sleep_for(kLookAtTaker);
  }
  return Error(ETIMEDOUT, "nobody has taken it");
}

// Whom it was asked of, and what he said.
struct Asked {
  Holder holder;
  shared::HandoverAnswer answer;
};

// None: `why` has one line.
std::optional<Asked> ask_coordinator(const Source& source, const SourceAccess& access, const std::string& to,
                                     std::string& why) {
  const auto begins_until = steady_clock::now() + kBegins;
  while (true) {
    const auto holder = find_holder(source, access);
    if (!holder.ok()) return why = describe(holder.error()), std::nullopt;
    if (!*holder) return why = "nobody has the volume", std::nullopt;
    const auto address = address_of_coordinator((*holder)->name);
    if (!address) return why = fmt::format("{} has the volume, and does not share it", (*holder)->name), std::nullopt;
    const auto answer = shared::ask_handover(*address, access.secret, {(*holder)->client, source.volume, to});
    if (!answer.ok()) return why = why_not_asked(**holder, answer.error()), std::nullopt;
    if (answer->status == 0) return Asked{**holder, *answer};
    why = printable(answer->text);
    if (answer->status != EAGAIN || steady_clock::now() >= begins_until) return std::nullopt;
    std::this_thread::sleep_for(kAskedAgain);
  }
}

}  // namespace

int run_handover(const Command& command) {
  std::string why;
  const auto source = parse_source(command.source, &why);
  if (!source.ok()) return fail(command, why);
  const auto secret = secret_in(command.secret_file, &why);
  if (!secret.ok()) return fail(command, why);
  const SourceAccess access{*secret, command.set.etcd};
  const auto asked = ask_coordinator(*source, access, command.member, why);
  if (!asked) return fail(command, why);
  const std::string meant = asked->answer.text;
  const auto taker = await_taker(*source, access, asked->holder);
  if (!taker.ok()) return fail(command, fmt::format("{} was to take it, and nobody has", printable(meant)));
  const std::string name = plain_name(taker->name);
  if (command.json) {
    print_json({{"from", plain_name(asked->holder.name)}, {"asked", meant}, {"to", name}});
  } else {
    fmt::print("{} coordinates it now\n", printable(name));
  }
  if (name != meant) return fail(command, fmt::format("{} was to take it", printable(meant)), 3);
  return EXIT_SUCCESS;
}

}  // namespace brickfs
