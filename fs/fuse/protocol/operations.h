// SPDX-License-Identifier: Apache-2.0
// What is done for each kind of request, in groups: an operation takes the request's arguments, calls the file system
// and answers. What depends on its kind alone stands in its row.
//
// Left out on purpose: access, poll, ioctl, bmap (the kernel stops asking). So are flush and locks, but on a mount
// whose volume other machines have, too: elsewhere the kernel keeps locks by itself.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "fs/fuse/protocol/protocol.h"
#include "fs/fuse/protocol/request.h"
#include "fs/operations/file_operations.h"
#include "transport/base/result.h"

namespace brickfs {

class FuseSession;

struct FuseOperation {
  // Behind the kernel's back, which is told with the answer: the inode that the request names. Nothing: it changes
  // nothing, or the kernel learns it from the answer, or changes its own copy likewise.
  enum class Stamps { kNode, kNothing };
  // kLittle: it is answered from memory, whatever the brick does. kMuch: it moves much. kDisk: it waits for the brick's
  // disk, which is much; on a volatile brick it is some.
  enum class Takes { kLittle, kSome, kMuch, kDisk };

  uint32_t opcode = 0;
  std::string_view name;       // for metrics; several may share one
  size_t arguments_bytes = 0;  // a request that has not so many, or behind them
  size_t names = 0;            // so many names, none of them empty, is not served
  void (*serve)(FuseSession& session, FuseRequest& request) = nullptr;
  Stamps stamps = Stamps::kNode;
  Takes takes = Takes::kSome;
  bool is_for_open_file = false;  // that was opened by whoever was allowed to

  constexpr FuseOperation with_names(size_t count) const {
    FuseOperation copy = *this;
    copy.names = count;
    return copy;
  }
  constexpr FuseOperation that_takes(Takes time) const {
    FuseOperation copy = *this;
    copy.takes = time;
    return copy;
  }
  constexpr FuseOperation for_open_file() const {
    FuseOperation copy = *this;
    copy.is_for_open_file = true;
    return copy;
  }
};

constexpr FuseOperation::Stamps kStampsNothing = FuseOperation::Stamps::kNothing;
constexpr FuseOperation::Takes kLittle = FuseOperation::Takes::kLittle;
constexpr FuseOperation::Takes kMuch = FuseOperation::Takes::kMuch;
constexpr FuseOperation::Takes kDisk = FuseOperation::Takes::kDisk;

template <auto kServe, typename In = void>
constexpr FuseOperation operation(uint32_t opcode, std::string_view name,
                                  FuseOperation::Stamps stamps = FuseOperation::Stamps::kNode) {
  if constexpr (std::is_void_v<In>) {
    return {.opcode = opcode, .name = name, .serve = kServe, .stamps = stamps};
  } else {
    return {
        .opcode = opcode,
        .name = name,
        .arguments_bytes = sizeof(In),
        .serve = [](FuseSession& session, FuseRequest& request) { kServe(session, request, *request.arguments<In>()); },
        .stamps = stamps};
  }
}

std::span<const FuseOperation> name_operations();       // fs/fuse/serve/name_operations.cc
std::span<const FuseOperation> directory_operations();  // fs/fuse/serve/directory_operations.cc
std::span<const FuseOperation> attribute_operations();  // fs/fuse/serve/attribute_operations.cc
std::span<const FuseOperation> data_operations();       // fs/fuse/serve/data_operations.cc
std::span<const FuseOperation> lock_operations();       // fs/fuse/serve/lock_operations.cc

// Of all groups. Null: there is none, the answer is ENOSYS.
const FuseOperation* find_operation(uint32_t opcode);

// A write has been done, or not: what is to be said of that before, and the answer.
void answer_write(FuseSession& session, FuseRequest& request, const Result<uint64_t>& written);

// Between the kernel's terms and the file system's: attributes, and the answers that are made of them. `seconds`: for
// so long the kernel may keep it.
fuse_attr to_kernel(const Attributes& attributes);
fuse_entry_out to_entry(const Attributes& attributes, uint64_t seconds);

// Hands a reference over to the kernel; takes it back when the kernel is gone.
void answer_entry(FuseRequest& request, FileOperations& files, const Result<Attributes>& attributes);
// The same of a file that is open with that, so.
void answer_created(FuseRequest& request, FileOperations& files, const Result<Attributes>& attributes,
                    const fuse_open_out& open);
void answer_attributes(FuseRequest& request, const Result<Attributes>& attributes);

}  // namespace brickfs
