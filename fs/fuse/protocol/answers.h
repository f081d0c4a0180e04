// SPDX-License-Identifier: Apache-2.0
// Between the kernel's terms and the file system's: attributes, and the answers that are made of them.
#pragma once

#include <cstdint>

#include "fs/fuse/protocol/protocol.h"
#include "fs/fuse/protocol/request.h"
#include "fs/operations/file_operations.h"
#include "transport/base/result.h"

namespace brickfs {

fuse_attr to_kernel(const Attributes& attributes);
fuse_entry_out to_entry(const Attributes& attributes);

// Hands a reference over to the kernel; takes it back when the kernel is gone.
void answer_entry(FuseRequest& request, FileOperations& files, const Result<Attributes>& attributes);
// The same of a file that is open with that.
void answer_created(FuseRequest& request, FileOperations& files, const Result<Attributes>& attributes);
void answer_attributes(FuseRequest& request, const Result<Attributes>& attributes);

}  // namespace brickfs
