// SPDX-License-Identifier: Apache-2.0
// brickctl set scrub: compares the copies of a replicated set. It reads as one more reader, so a client that has it
// mounted for writing keeps it out, and the other way round: while a volume is written its copies differ for moments,
// and only its holder knows where.
#include "tools/brickctl/set_scrub.h"

#include <fmt/core.h>

#include <cstdlib>

#include "tools/brickctl/interrupt.h"
#include "tools/brickctl/json.h"
#include "tools/brickctl/open_volume.h"
#include "tools/brickctl/set.h"
#include "transport/base/printable.h"
#include "transport/base/progress_bar.h"

namespace brickfs {
namespace {

constexpr int kCopiesDiffer = 3;

bool all_equal(const ReplicaComparison& found) { return found.differing == 0 && found.not_there.empty(); }

Json to_json(const ReplicaDifference& difference) {
  return {{"place", difference.place}, {"block", raw(difference.block)}, {"address", difference.address},
          {"bytes", difference.bytes}, {"first", difference.first},      {"other", difference.other}};
}

void print_as_json(const Command& command, const ReplicaComparison& found) {
  Json differences = Json::array();
  for (const ReplicaDifference& difference : found.differences) differences.push_back(to_json(difference));
  print_json({{"source", command.source},
              {"equal", all_equal(found)},
              {"blocks", found.blocks},
              {"blocks_passed_over", found.passed_over},
              {"places_with_one_copy", found.alone},
              {"not_compared", found.not_there},
              {"differing", found.differing},
              {"differences", differences}});
}

void print_text(const Command& command, const ReplicaComparison& found) {
  for (const ReplicaDifference& difference : found.differences) fmt::print("{}\n", printable(describe(difference)));
  if (found.differing > found.differences.size())
    fmt::print("and {} more\n", found.differing - found.differences.size());
  for (const std::string& copy : found.not_there) fmt::print("{}\n", printable(describe_absent(copy)));
  if (found.alone > 0) fmt::print("{} place(s) with one copy to be read: nothing to compare it with\n", found.alone);
  if (found.passed_over > 0) {
    fmt::print("{} block(s) passed over: its client has crashed, and the next mount makes them equal\n",
               found.passed_over);
  }
  const char* const verdict = found.differing > 0 ? "copies differ"
                              : all_equal(found)  ? "all copies are equal"
                                                  : "not all copies could be compared";
  fmt::print("{}: {}, {} blocks compared\n", printable(command.source), verdict, found.blocks);
}

}  // namespace

std::string describe(const ReplicaDifference& difference) {
  if (difference.bytes == 0) {
    return fmt::format("place {}: {} lacks the block at {:#x}, which {} has", difference.place, difference.other,
                       raw(difference.block), difference.first);
  }
  return fmt::format("place {}: {} has {} other bytes than {} in the block at {:#x}, the first at {:#x}",
                     difference.place, difference.other, difference.bytes, difference.first, raw(difference.block),
                     difference.address);
}

std::string describe_absent(const std::string& copy) {
  return fmt::format("{} is in sync, and cannot be had now: it was not compared", copy);
}

int run_set_scrub(const Command& command) {
  std::string why;
  const auto source = parse_source(command.source, &why);
  if (!source.ok()) return fail(command, why);
  if (source->kind != SourceKind::kEtcd)
    return fail(command, "a replicated set is named by etcd://HOST[:PORT][,HOST[:PORT]]/VOLUME");
  auto volume = open_volume(command, OpenMode::kReadOnly, &why);
  if (!volume.ok() && volume.error().is(EBUSY)) why += "; copies are compared while nobody writes to them: unmount it";
  if (!volume.ok()) return fail(command, why);
  catch_interrupts();
  ProgressBar bar;
  CompareOptions options;
  options.bytes_per_second = command.set.bytes_per_second;
  options.progress = [&bar](std::string_view what, uint64_t done, uint64_t total) { bar.show(what, done, total); };
  options.stopped = interrupted;
  const auto found = compare_replicas(**volume, options);
  bar.end();
  static_cast<void>((*volume)->close());  // a reader leaves nothing behind
  if (!found.ok()) return fail(command, found.error().is(EINTR) ? "interrupted" : found.error().what());
  if (command.json) print_as_json(command, *found);
  if (!command.json) print_text(command, *found);
  if (found->differing > 0) return kCopiesDiffer;
  return all_equal(*found) ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace brickfs
