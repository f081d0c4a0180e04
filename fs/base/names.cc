// SPDX-License-Identifier: Apache-2.0
#include "fs/base/names.h"

#include "transport/brick/limits.h"

namespace brickfs {

Status check_new_name(std::string_view name) {
  if (name.size() > limits::kNameBytes) return Error(ENAMETOOLONG, "the name is too long");
  if (name.empty()) return Error(ENOENT, "the name is empty");
  if (name == "." || name == "..") return Error(EEXIST, "the name is there in every directory");
  if (name.find_first_of(std::string_view("/\0", 2)) != name.npos)
    return Error(EINVAL, "a name may not have this byte");
  return {};
}

}  // namespace brickfs
