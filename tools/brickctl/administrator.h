// SPDX-License-Identifier: Apache-2.0
// What brickctl asks a brick as its administrator.
#pragma once

#include <string>

#include "transport/base/result.h"
#include "transport/brick/administration.h"
#include "transport/brick/source.h"

namespace brickfs {

class Administrator {
 public:
  // `secret_file` empty: /etc/brickfs/admin.secret, if it is there.
  Administrator(Source source, std::string secret_file)
      : source_(std::move(source)), secret_file_(std::move(secret_file)) {}

  // Page by page, if it is a list. Errors as administer(), and of the file, with one line in `why`.
  Result<AdminAnswer> ask(AdminRequest request, std::string* why) const;

 private:
  Result<Secret> secret(std::string* why) const;

  const Source source_;
  const std::string secret_file_;
};

}  // namespace brickfs
