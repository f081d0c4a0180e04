// SPDX-License-Identifier: Apache-2.0
// What brickctl asks a brick as its administrator.
#pragma once

#include <string>

#include "tools/brickctl/options.h"
#include "transport/base/result.h"
#include "transport/brick/administration.h"
#include "transport/brick/client_secret.h"
#include "transport/brick/source.h"

namespace brickfs {

class Administrator {
 public:
  // `secret_file` empty: /etc/brickfs/admin.secret, if it is there.
  Administrator(Source source, SecretFile secret_file)
      : source_(std::move(source)), secret_file_(std::move(secret_file)) {}

  // Page by page, if it is a list. Errors as administer(), and of the file, with one line in `why`.
  Result<AdminAnswer> ask(AdminRequest request, std::string* why) const;

 private:
  Result<ClientSecret> secret(std::string* why) const;

  const Source source_;
  const SecretFile secret_file_;
};

}  // namespace brickfs
