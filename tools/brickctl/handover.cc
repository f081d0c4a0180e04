// SPDX-License-Identifier: Apache-2.0
// brickctl handover: another machine is to coordinate a shared volume. The brick (or the map of a set) tells who does
// now and where, that one is asked, and who has the volume is looked at until another has.
#include "fs/shared/handover.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdio>
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

// The coordinator's name, without where it is.
std::string plain_name(const std::string& name) { return name.substr(0, name.find(" shares at ")); }

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

}  // namespace

int run_handover(const Command& command) {
  std::string why;
  const auto source = parse_source(command.source, &why);
  if (!source.ok()) return fail(command, why);
  const auto secret = ClientSecret::of_file(command.secret_file, &why);
  if (!secret.ok()) return fail(command, why);
  const SourceAccess access{*secret, command.set.etcd};
  const auto holder = find_holder(*source, access);
  if (!holder.ok()) return fail(command, describe(holder.error()));
  if (!*holder) return fail(command, "nobody has the volume");
  const auto address = address_of_coordinator((*holder)->name);
  if (!address) return fail(command, fmt::format("{} has the volume, and does not share it", (*holder)->name));
  const auto answer = shared::ask_handover(*address, *secret, {(*holder)->client, source->volume, command.member});
  if (!answer.ok()) return fail(command, why_not_asked(**holder, answer.error()));
  if (answer->status != 0) return fail(command, printable(answer->text));
  const auto taker = await_taker(*source, access, **holder);
  if (!taker.ok()) return fail(command, fmt::format("{} was to take it, and nobody has", printable(answer->text)));
  const std::string name = plain_name(taker->name);
  if (command.json) {
    print_json({{"from", plain_name((*holder)->name)}, {"asked", answer->text}, {"to", name}});
  } else {
    fmt::print("{} coordinates it now\n", printable(name));
  }
  if (name != answer->text) return fail(command, fmt::format("{} was to take it", printable(answer->text)), 3);
  return EXIT_SUCCESS;
}

}  // namespace brickfs
