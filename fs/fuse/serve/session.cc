// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/session.h"

#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "fs/fuse/interrupt/thread_status.h"
#include "fs/operations/gate.h"
#include "transport/base/check.h"

namespace brickfs {

FuseSession::FuseSession(FileOperations& files, const Rules& rules)
    : files_(files), rules_(rules), sharing_(rules.sharing, negotiation_), cache_(files), locks_(files) {
  if (sharing_.is_shared()) negotiation_.want_sharing();
  if (!rules.writeback_cache) return;
  negotiation_.want_writeback();
  WritebackCache::Notices notices;
  notices.write_back = [this](Ino ino) { cache_.write_back_and_drop(ino); };
  notices.forget_attributes = [this](Ino ino) { cache_.drop_attributes(ino); };
  writeback_ = std::make_unique<WritebackCache>(files, std::move(notices));
}

FuseSession::~FuseSession() {
  if (writeback_) files_.reserve_for_writeback(0, [] {});
}

// What was answered before may have arrived and not have been taken note of: by whom a moment later.
void FuseSession::set_members(bool has_members) {
  constexpr std::chrono::milliseconds kTaken{50};
  sharing_.set_members(has_members);
  if (!has_members) return;
  cache_.drop_names_and_attributes();
  std::this_thread::sleep_for(kTaken);
  cache_.drop_names_and_attributes();
}

void FuseSession::stop() {
  locks_.stop();
  cache_.stop();
  if (writeback_) writeback_->stop();
}

namespace {

// Gives nothing of the volume away, or is about its end.
bool is_told_when_lost(const FuseRequest& request) {
  const bool is_root = request.ino() == kRootIno;
  switch (request.header().opcode) {
    case FUSE_DESTROY:
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_FLUSH:
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

bool may_ask(const FuseSession& session, const fuse_in_header& header) {
  if (session.may_ask(header.uid)) return true;
  const auto user = user_of(header.uid, header.pid);
  return user && session.may_ask(*user);
}

bool expects_answer(const FuseRequest& request) {
  const fuse_in_header& header = request.header();
  return header.unique != 0 && header.opcode != FUSE_FORGET && header.opcode != FUSE_BATCH_FORGET;
}

void refuse(FuseRequest& request, const Status& why) {
  if (!expects_answer(request)) return request.dismiss();
  request.answer(why);
}

}  // namespace

FuseDispatcher::FuseDispatcher(FuseSession& session, FuseInterrupts& interrupts, std::function<void()> on_begun)
    : session_(session), interrupts_(interrupts), on_begun_(std::move(on_begun)) {}

Status FuseDispatcher::refusal() const { return gate(session_.files()); }

void FuseDispatcher::begin_session(FuseRequest& request) const {
  const auto agreed = session_.negotiation().answer(request.body(0));
  agreed.ok() ? request.answer_with(*agreed) : request.answer(agreed.error());
  if (session_.negotiation().is_done()) on_begun_();
}

void FuseDispatcher::serve(FuseRequest& request) const {
  if (!request.is_whole()) return refuse(request, Error(EIO));
  const uint32_t opcode = request.header().opcode;
  if (opcode == FUSE_INTERRUPT) return interrupt(request);
  if (opcode == FUSE_INIT) return begin_session(request);
  const FuseOperation* const operation = find_operation(opcode);
  if (const Status lost = refusal(); !lost.ok() && !is_told_when_lost(request)) return refuse(request, lost);
  if (operation == nullptr) return refuse(request, Error(ENOSYS));
  // With allow_root the kernel lets everybody in, and leaves the rest to us.
  if (!operation->is_for_open_file && !may_ask(session_, request.header())) return refuse(request, Error(EACCES));
  if (!request.has(operation->arguments_bytes, operation->names)) return refuse(request, Error(EINVAL));
  const FuseSharing::Validity validity(session_.sharing());
  request.keep_for(validity.seconds());
  if (operation->stamps == FuseOperation::Stamps::kNode) request.stamped(request.ino());
  operation->serve(session_, request);
  CHECK(request.is_answered());
}

// If that request is not at hand (yet) the kernel says it again, if it still is under way. In this order: a request for
// a lock looks whether it was asked once it is among those that wait.
void FuseDispatcher::interrupt(FuseRequest& request) const {
  const auto* const in = request.arguments<fuse_interrupt_in>();
  if (in == nullptr) return refuse(request, Error(EINVAL));
  const bool is_served = interrupts_.ask(in->unique);
  if (session_.locks().interrupt(in->unique) || is_served) return request.dismiss();
  request.answer(Error(EAGAIN));
}

}  // namespace brickfs
