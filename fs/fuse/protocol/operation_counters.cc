// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/protocol/operation_counters.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "fs/fuse/protocol/operations.h"

namespace brickfs {
namespace {

constexpr uint32_t kOther = 0;  // no opcode

struct OpcodeName {
  uint32_t opcode;
  std::string_view name;
};

// Of requests that are not served by an operation.
constexpr OpcodeName kOtherNames[] = {
    {FUSE_ACCESS, "access"}, {FUSE_IOCTL, "ioctl"},         {FUSE_POLL, "poll"},
    {FUSE_INIT, "init"},     {FUSE_INTERRUPT, "interrupt"},
};

bool is_failure(uint32_t opcode, int error) {
  if (error == 0 || error == ENOSYS) return false;  // the latter: the kernel is to do it itself from now on
  const bool may_be_missing = error == ENOENT && opcode == FUSE_LOOKUP;
  const bool may_be_locked = error == EAGAIN && (opcode == FUSE_SETLK || opcode == FUSE_SETLKW);
  const bool may_lack = error == ENODATA && opcode == FUSE_GETXATTR;
  return !may_be_missing && !may_be_locked && !may_lack;
}

}  // namespace

std::string_view operation_name(uint32_t opcode) {
  if (const FuseOperation* const operation = find_operation(opcode)) return operation->name;
  const auto* const found = std::ranges::find(kOtherNames, opcode, &OpcodeName::opcode);
  return found == std::end(kOtherNames) ? "other" : found->name;
}

void OperationCounters::count(uint32_t opcode, int error, std::chrono::nanoseconds took, uint64_t bytes) {
  counters_.count(opcode < kKinds ? opcode : kOther, took, is_failure(opcode, error), bytes);
}

std::vector<OperationCounters::Operation> OperationCounters::operations() const {
  std::vector<Operation> all;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    const Operation one{operation_name(static_cast<uint32_t>(kind)), counters_.counts(kind)};
    if (one.counts.count() == 0) continue;
    const auto same = std::ranges::find(all, one.name, &Operation::name);
    if (same == all.end()) {
      all.push_back(one);
    } else {
      same->counts += one.counts;
    }
  }
  std::ranges::sort(all, {}, &Operation::name);
  return all;
}

}  // namespace brickfs
