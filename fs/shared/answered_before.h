// SPDX-License-Identifier: Apache-2.0
// A call that was done for a member by a former coordinator, who could not tell him: the journal says that it was done
// (fs/inode/member_register.h), and the answer is made again. What it has of attributes is as they are now.
//
// Threads: any.
#pragma once

#include "fs/inode/member_register.h"
#include "fs/operations/file_operations.h"
#include "fs/shared/served_call.h"

namespace brickfs::shared {

// EPROTO: such a call leaves nothing in the journal, or another one was sent under its number.
ServedAnswer answered_before(FileOperations& files, const Decoded& call, const MemberReply& reply,
                             const OperationContext& context);

}  // namespace brickfs::shared
