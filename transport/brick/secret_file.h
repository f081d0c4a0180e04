// SPDX-License-Identifier: Apache-2.0
// Files that have secrets, a line each. Whoever shows a secret shows the first; who asks for one takes any of them, so
// that the secret can be changed at one end after the other. docs/operations.md, "Another secret".
#pragma once

#include <string>
#include <vector>

#include "transport/base/result.h"
#include "transport/brick/proof.h"

namespace brickfs {

// At least one; empty lines and line ends are of none. A file that is not text is one secret, line ends behind it left
// out. EINVAL, with `why`: without a secret, zeros alone, more than limits::kSecretBytes or limits::kSecrets, or no
// regular file. EPERM: somebody else may know or have chosen what is in it. It is this user's, for nobody else; or
// root's, whose group may read it.
Result<std::vector<Secret>> read_secrets(const std::string& path, std::string* why);

// The first of them.
Result<Secret> read_secret_file(const std::string& path, std::string* why);

}  // namespace brickfs
