// SPDX-License-Identifier: Apache-2.0
// The members of a shared volume as its journal knows them, with the last call of each of their slots that changed
// anything: so whoever has the volume next lets them in again, and does no call twice. docs/shared.md.
//
// Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fs/base/ids.h"
#include "fs/inode/rows.h"
#include "transport/base/mutex.h"

namespace brickfs {

// What a call was answered, beside what its request tells.
struct MemberReply {
  uint64_t number = 0;  // of the call, on its slot
  uint64_t first = 0;
  uint64_t second = 0;
};

struct KnownMember {
  uint64_t session = 0;
  uint64_t client = 0;
  std::array<std::byte, 16> token{};
  bool read_only = false;
  std::string name;
  std::map<uint32_t, MemberReply> replies = {};  // by slot

  explicit KnownMember(const MemberRow& row)
      : session(row.session), client(row.client), token(row.token), read_only(row.read_only), name(row.name) {}
  MemberRow row() const { return {session, client, token, read_only, name}; }
};

// The same while rows are read: by session.
using KnownMembers = std::map<uint64_t, KnownMember>;
void put_row(KnownMembers& records, const MemberRow& row);
void put_row(KnownMembers& records, const ReplyRow& row);  // of one that is not there (any more): nothing

class MemberRegister {
 public:
  // Appends a transaction that has these rows.
  using Append = std::function<Lsn(Transaction& transaction)>;

  void recovered(KnownMembers records);
  std::vector<KnownMember> all() const;
  // Each is seen by put_all() once its transaction is appended, and not before.
  void begin(const MemberRow& row, const Append& append);
  void end(uint64_t session, const Append& append);
  // With the row in it, if that member is there still.
  Lsn reply(const ReplyRow& row, Transaction& transaction, const Append& append);
  void put_all(Transaction& out) const;

 private:
  mutable Mutex mutex_;
  KnownMembers records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
