// SPDX-License-Identifier: Apache-2.0
// What /proc tells of a thread or process, which may end at any moment.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace brickfs {

// Its /proc/THREAD/status; empty: it has ended, or is not one that we see (0: the kernel itself, or one of another pid
// namespace).
std::string thread_status(uint32_t thread);
// Of such a text: what is behind "NAME:", without blanks before it; empty: no such field.
std::string_view status_field(std::string_view status, std::string_view name);
// The same of a field that is a set of bits; 0: no such field.
uint64_t status_bits(std::string_view status, std::string_view name);
// Of the user ("Uid") or group ("Gid") that it is to file systems; none: no such field.
std::optional<uint32_t> status_id(std::string_view status, std::string_view name);
// The user whom a request names, or, where the kernel names none (with id-mapped mounts it does for those alone that
// make an inode), who its thread is; none: it has ended.
std::optional<uint32_t> user_of(uint32_t uid, uint32_t thread);
// It ends, and closes what it had open meanwhile: no signal reaches it any more.
bool is_exiting(uint32_t thread);
// The same, as its /proc/THREAD/stat says.
bool tells_of_exiting(std::string_view stat);
// Its capabilities are not those of a user namespace below ours. True, too, if we may not know.
bool shares_user_namespace(uint32_t thread);

}  // namespace brickfs
