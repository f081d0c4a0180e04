// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/session.h"

#include <utility>

namespace brickfs {

FuseSession::FuseSession(FileOperations& files, const Rules& rules) : files_(files), rules_(rules), cache_(files) {
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

void FuseSession::stop() {
  cache_.stop();
  if (writeback_) writeback_->stop();
}

}  // namespace brickfs
