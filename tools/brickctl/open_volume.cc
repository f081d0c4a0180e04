// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/open_volume.h"

#include <chrono>
#include <thread>

#include "fs/source/source_volume.h"
#include "tools/brickctl/target.h"

namespace brickfs {
namespace {

using std::chrono::steady_clock;

Result<std::unique_ptr<VolumeSet>> try_to_open(const Command& command, const Source& source, OpenMode mode,
                                               std::string* why) {
  const ClientSecret secret = TRY(secret_in(command.secret_file, why));
  Target target{command.source, source, nullptr};
  VolumeOptions options;
  options.open = open_request(target, mode);
  options.embedded = source.embedded();
  options.soft = limits::kSoftTimeout;
  options.accept_older = command.accept_older;
  SourceFailure failure;
  auto volume = open_source(source, command.source, {secret, command.set.etcd}, options, false, failure);
  if (volume.ok()) return volume;
  *why = failure.why;
  if (why->empty()) {
    *why = describe_open_error(target, volume.error(), failure.holder);
    if (source.is_set()) *why = failure.name + ": " + *why;
  }
  return volume;
}

}  // namespace

Result<std::unique_ptr<VolumeSet>> open_volume(const Command& command, OpenMode mode, std::string* why) {
  const Source source = TRY(parse_source(command.source, why));
  const auto deadline = steady_clock::now() + holder_leaves_within(source);
  auto volume = try_to_open(command, source, mode, why);
  while (!volume.ok() && volume.error().is(EBUSY) && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kTryHeldAgain);
    volume = try_to_open(command, source, mode, why);
  }
  return volume;
}

}  // namespace brickfs
