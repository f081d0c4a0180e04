// SPDX-License-Identifier: Apache-2.0
// The choice of the next call.
#include <algorithm>

#include "tests/posix/diff_call.h"

namespace brickfs::posix {
namespace {

using Random = std::mt19937_64;

uint64_t below(Random& random, uint64_t bound) { return random() % bound; }
bool once_in(Random& random, uint64_t times) { return below(random, times) == 0; }

template <typename Container>
auto& one_of(Random& random, Container& container) {
  return container[below(random, std::size(container))];
}

std::string random_name(Random& random) {
  static const char* const kNames[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
  if (once_in(random, 150)) return std::string(255, 'n');
  if (once_in(random, 300)) return std::string(256, 'n');
  return one_of(random, kNames);
}

std::string odd_path(Random& random) {
  static const std::string kPaths[] = {
      ".", "..", "/", "", "a/..", "a/.", "./a", "a/", "b/", "/a//b", "c/../a", "a/b/c/d/e/f/g/h", "../a", "d/.."};
  if (once_in(random, 20)) return std::string(4200, 'x');
  if (once_in(random, 20)) {
    std::string deep;
    for (int i = 0; i < 300; ++i) deep += "a/";
    return deep;
  }
  return one_of(random, kPaths);
}

std::string random_path(Random& random, const Hints& hints, bool makes) {
  if (once_in(random, 14)) return odd_path(random);
  if (!hints.paths.empty() && below(random, 10) < (makes ? 4 : 9)) return one_of(random, hints.paths);
  if (!hints.paths.empty() && !once_in(random, 3)) return one_of(random, hints.paths) + "/" + random_name(random);
  return random_name(random);
}

std::string random_target(Random& random, const Hints& hints) {
  switch (below(random, 8)) {
    case 0:
      return "/" + random_name(random);
    case 1:
      return "../" + random_name(random);
    case 2:
      return "nothing/there";
    case 3:
      return std::string(4090 + below(random, 8), 't');
    case 4:
      return "";
    default:
      return random_path(random, hints, false);
  }
}

std::string random_xattr(Random& random) {
  static const std::string kNames[] = {"user.a",
                                       "user.b",
                                       "user.c",
                                       "user.a",
                                       "user.b",
                                       "trusted.t",
                                       "trusted.u",
                                       "security.s",
                                       "user.",
                                       "other.a",
                                       "user",
                                       "system.posix_acl_access",
                                       "system.posix_acl_default",
                                       "system.other",
                                       ""};
  if (once_in(random, 50)) return "user." + std::string(250 + below(random, 3), 'x');
  return one_of(random, kNames);
}

int64_t random_offset(Random& random) {
  if (once_in(random, 100)) return -1 - static_cast<int64_t>(below(random, 5000));
  if (once_in(random, 8)) return static_cast<int64_t>(below(random, 3'000'000));
  const auto block = static_cast<int64_t>(below(random, 12)) * 4096;
  if (once_in(random, 2)) return block;
  return once_in(random, 2) ? block + static_cast<int64_t>(below(random, 7))
                            : static_cast<int64_t>(below(random, 50'000));
}

uint64_t random_length(Random& random) {
  if (once_in(random, 30)) return 0;
  if (once_in(random, 12)) return below(random, 400'000);
  if (once_in(random, 3)) return 4096 * (1 + below(random, 5));
  return 1 + below(random, once_in(random, 2) ? 100 : 15'000);
}

uint32_t random_mode(Random& random) {
  static const uint32_t kModes[] = {0644,  0600,  0755,  0777,  0700,  0666,  0444,  0,    01777,
                                    02775, 04755, 02755, 06755, 02644, 04711, 02070, 06711};
  return once_in(random, 4) ? static_cast<uint32_t>(below(random, 010000)) : one_of(random, kModes);
}

uint32_t random_owner(Random& random, bool group) {
  static const uint32_t kOwners[] = {UINT32_MAX, 0, 1000, 1001};
  return group && once_in(random, 4) ? 2000 : one_of(random, kOwners);
}

struct Choice {
  const Operation* operation;
  int up_to;  // of the weights summed up
};

std::vector<Choice> choices_of(const Profile& profile) {
  std::vector<Choice> choices;
  int sum = 0;
  for (const auto& group : {name_operations(), attribute_operations(), data_operations(), process_operations()}) {
    for (const Operation& operation : group) {
      const std::string name = operation.name;
      if (profile.strict_holes ? operation.blurs_holes : name == "seek_data") continue;
      if (std::find(profile.without.begin(), profile.without.end(), name) != profile.without.end()) continue;
      sum += operation.weight;
      choices.push_back({&operation, sum});
    }
  }
  return choices;
}

const Operation* random_operation(Random& random, const Profile& profile) {
  const std::vector<Choice> choices = choices_of(profile);
  const int at = static_cast<int>(below(random, static_cast<uint64_t>(choices.back().up_to)));
  return std::upper_bound(choices.begin(), choices.end(), at,
                          [](int value, const Choice& choice) { return value < choice.up_to; })
      ->operation;
}

}  // namespace

Call random_call(Random& random, const Profile& profile, const Hints& hints) {
  Call call;
  call.operation = random_operation(random, profile);
  const unsigned fields = call.operation->fields;
  const bool makes = (fields & kMakes) != 0;
  call.slot = static_cast<int>(below(random, kSlots));
  if (fields & kOtherSlot) call.other_slot = static_cast<int>(below(random, kSlots));
  if (fields & kPath) call.path = random_path(random, hints, makes && (fields & kOtherPath) == 0);
  if (fields & kOtherPath) call.other_path = random_path(random, hints, makes);
  if (fields & kTarget) call.other_path = random_target(random, hints);
  if (fields & kXattrName) call.name = random_xattr(random);
  if (fields & kOffset) call.offset = random_offset(random);
  if (fields & kOtherOffset) call.other_offset = random_offset(random);
  if (fields & kLength) call.length = random_length(random);
  if (fields & kMode) call.mode = random_mode(random);
  if (fields & kOwner) call.uid = random_owner(random, false);
  if (fields & kOwner) call.gid = random_owner(random, true);
  if (call.uid == UINT32_MAX && call.gid == UINT32_MAX) call.gid = 2000;  // neither: docs/posix.md
  if (fields & kSeed) call.seed = static_cast<uint32_t>(random());
  if (!call.operation->choices.empty()) call.flags = one_of(random, call.operation->choices);
  for (const int bit : call.operation->bits) {
    if (once_in(random, 14)) call.flags |= bit;
  }
  call.times = !call.operation->of_process && once_in(random, 12);
  return call;
}

}  // namespace brickfs::posix
