// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/dispatcher.h"

#include <cerrno>
#include <string_view>

#include "fs/fuse/mount.h"
#include "transport/base/check.h"

namespace brickfs {
namespace {

// Gives nothing of the volume away, or is about its end.
bool is_told_when_lost(const FuseRequest& request) {
  const bool is_root = request.ino() == kRootIno;
  switch (request.header().opcode) {
    case FUSE_DESTROY:
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
    case FUSE_STATFS:
      return true;
    case FUSE_GETATTR:
    case kOpcodeStatx:
      return is_root;
    case FUSE_GETXATTR:
      return is_root && request.name(sizeof(fuse_getxattr_in)).starts_with("brickfs.");
    default:
      return false;
  }
}

// Of something that was opened, by whoever was allowed to.
bool is_for_open_file(uint32_t opcode) {
  switch (opcode) {
    case FUSE_READ:
    case FUSE_WRITE:
    case FUSE_FSYNC:
    case FUSE_RELEASE:
    case FUSE_READDIR:
    case FUSE_READDIRPLUS:
    case FUSE_FSYNCDIR:
    case FUSE_RELEASEDIR:
      return true;
    default:
      return false;
  }
}

}  // namespace

FuseDispatcher::FuseDispatcher(FuseMount& mount, FuseInterrupts& interrupts, std::function<void()> on_begun)
    : mount_(mount), interrupts_(interrupts), on_begun_(std::move(on_begun)) {
  for (const auto group : {name_operations(), directory_operations(), attribute_operations(), data_operations()}) {
    for (const FuseOperation& operation : group) {
      CHECK(operation.opcode < kOpcodes && operations_[operation.opcode] == nullptr);
      operations_[operation.opcode] = &operation;
    }
  }
}

Status FuseDispatcher::refusal() const {
  const Status lost = mount_.filesystem().volume().final_error();
  return lost.code() == ECANCELED ? Status() : lost;  // the latter: we end
}

// With allow_root the kernel lets everybody in, and leaves the rest to us.
bool FuseDispatcher::is_for_others(const FuseRequest& request) const {
  const uint32_t uid = request.header().uid;
  return mount_.only_owner_and_root() && uid != 0 && uid != mount_.owner() &&
         !is_for_open_file(request.header().opcode);
}

void FuseDispatcher::begin_session(FuseRequest& request) const {
  const auto agreed = mount_.negotiation().answer(request.body(0));
  agreed.ok() ? request.answer_with(*agreed) : request.answer(agreed.error());
  if (mount_.negotiation().is_done()) on_begun_();
}

void FuseDispatcher::serve(FuseRequest& request) const {
  const uint32_t opcode = request.header().opcode;
  if (opcode == FUSE_INTERRUPT) {
    // If that request is not at hand (yet) the kernel says it again, if it still is under way.
    const auto* const in = request.arguments<fuse_interrupt_in>();
    in != nullptr&& interrupts_.ask(in->unique) ? request.dismiss() : (void)request.answer(Error(EAGAIN));
    return;
  }
  if (opcode == FUSE_INIT) return begin_session(request);
  const FuseOperation* const operation = opcode < kOpcodes ? operations_[opcode] : nullptr;
  if (const Status lost = refusal(); !lost.ok() && !is_told_when_lost(request)) {
    request.answer(lost);
  } else if (operation == nullptr) {
    request.answer(Error(ENOSYS));
  } else if (is_for_others(request)) {
    request.answer(Error(EACCES));
  } else if (request.body(0).size() < operation->arguments_bytes) {
    request.answer(Error(EINVAL));
  } else {
    if (operation->stamps == FuseOperation::Stamps::kNode) request.stamped(request.ino());
    const Filesystem::Asker asker(request.header().pid, request.interruption());
    operation->serve(mount_, request);
  }
}

}  // namespace brickfs
