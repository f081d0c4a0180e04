// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/protocol/operations.h"

#include <array>

#include "fs/base/timespec.h"
#include "transport/base/check.h"

namespace brickfs {

namespace {

using Table = std::array<const FuseOperation*, kOpcodes>;  // by opcode

Table table_of_all() {
  Table table{};
  for (const auto group :
       {name_operations(), directory_operations(), attribute_operations(), data_operations(), lock_operations()}) {
    for (const FuseOperation& operation : group) {
      CHECK(operation.opcode < kOpcodes && table[operation.opcode] == nullptr);
      table[operation.opcode] = &operation;
    }
  }
  return table;
}

}  // namespace

const FuseOperation* find_operation(uint32_t opcode) {
  static const Table table = table_of_all();
  return opcode < table.size() ? table[opcode] : nullptr;
}

fuse_attr to_kernel(const Attributes& attributes) {
  const timespec atime = to_timespec(attributes.atime);
  const timespec mtime = to_timespec(attributes.mtime);
  const timespec ctime = to_timespec(attributes.ctime);
  fuse_attr out{};
  out.ino = raw(attributes.ino);
  out.size = attributes.size_bytes;
  out.blocks = attributes.blocks_512;
  out.atime = static_cast<uint64_t>(atime.tv_sec);
  out.mtime = static_cast<uint64_t>(mtime.tv_sec);
  out.ctime = static_cast<uint64_t>(ctime.tv_sec);
  out.atimensec = static_cast<uint32_t>(atime.tv_nsec);
  out.mtimensec = static_cast<uint32_t>(mtime.tv_nsec);
  out.ctimensec = static_cast<uint32_t>(ctime.tv_nsec);
  out.mode = attributes.mode;
  out.nlink = attributes.nlink;
  out.uid = attributes.uid;
  out.gid = attributes.gid;
  out.rdev = attributes.rdev;
  out.blksize = kUnitBytes;
  return out;
}

fuse_entry_out to_entry(const Attributes& attributes, uint64_t seconds) {
  fuse_entry_out entry{};
  entry.nodeid = raw(attributes.ino);
  entry.entry_valid = seconds;
  entry.attr_valid = seconds;
  entry.attr = to_kernel(attributes);
  return entry;
}

void answer_entry(FuseRequest& request, FileOperations& files, const Result<Attributes>& attributes) {
  if (!attributes.ok()) {
    request.answer(attributes.error());
    return;
  }
  const Ino ino = attributes->ino;
  if (!request.answer_with(to_entry(*attributes, request.kept_seconds()))) files.forget(ino, 1);
}

void answer_created(FuseRequest& request, FileOperations& files, const Result<Attributes>& attributes,
                    const fuse_open_out& open) {
  if (!attributes.ok()) {
    request.answer(attributes.error());
    return;
  }
  CreateOut out{};
  out.entry = to_entry(*attributes, request.kept_seconds());
  out.open = open;
  if (!request.answer_with(out)) files.forget(attributes->ino, 1);
}

void answer_attributes(FuseRequest& request, const Result<Attributes>& attributes) {
  if (!attributes.ok()) {
    request.answer(attributes.error());
    return;
  }
  fuse_attr_out out{};
  out.attr_valid = request.kept_seconds();
  out.attr = to_kernel(*attributes);
  request.answer_with(out);
}

}  // namespace brickfs
