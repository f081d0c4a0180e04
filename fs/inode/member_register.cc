// SPDX-License-Identifier: Apache-2.0
#include "fs/inode/member_register.h"

#include <utility>

namespace brickfs {

void put_row(KnownMembers& records, const MemberRow& row) {
  const auto [at, is_new] = records.try_emplace(row.session, row);
  if (is_new) return;
  KnownMember record(row);
  record.replies = std::move(at->second.replies);
  at->second = std::move(record);
}

void put_row(KnownMembers& records, const ReplyRow& row) {
  const auto at = records.find(row.session);
  if (at != records.end()) at->second.replies[row.slot] = {row.number, row.first, row.second};
}

void MemberRegister::recovered(KnownMembers records) {
  MutexLock lock(mutex_);
  records_ = std::move(records);
}

std::vector<KnownMember> MemberRegister::all() const {
  std::vector<KnownMember> all;
  MutexLock lock(mutex_);
  for (const auto& [session, record] : records_) all.push_back(record);
  return all;
}

void MemberRegister::begin(const MemberRow& row, const Append& append) {
  Transaction transaction;
  transaction.put(row);
  MutexLock lock(mutex_);
  (void)append(transaction);
  put_row(records_, row);
}

void MemberRegister::end(uint64_t session, const Append& append) {
  Transaction transaction;
  transaction.erase_member(session);
  MutexLock lock(mutex_);
  if (records_.erase(session) > 0) (void)append(transaction);
}

Lsn MemberRegister::reply(const ReplyRow& row, Transaction& transaction, const Append& append) {
  MutexLock lock(mutex_);
  if (!records_.contains(row.session)) return transaction.empty() ? Lsn{} : append(transaction);
  transaction.put(row);
  const Lsn lsn = append(transaction);
  put_row(records_, row);
  return lsn;
}

void MemberRegister::put_all(Transaction& out) const {
  MutexLock lock(mutex_);
  for (const auto& [session, record] : records_) {
    out.put(record.row());
    for (const auto& [slot, reply] : record.replies)
      out.put(ReplyRow{session, slot, reply.number, reply.first, reply.second});
  }
}

}  // namespace brickfs
