// SPDX-License-Identifier: Apache-2.0
// The brick that a command works on, and what to say when it does not let us.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tools/brickctl/options.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/client_secret.h"
#include "transport/brick/source.h"

namespace brickfs {

struct Target {
  std::string text;  // as given
  Source source;
  std::unique_ptr<Brick> brick;  // no session yet
};

// What the file has. EINVAL: TLS is required, and there is none; else errors as ClientSecret::of_file().
Result<ClientSecret> secret_in(const SecretFile& file, std::string* why);

// With one line in `why`. An embedded source gets a brick in this process.
Result<Target> make_target(const std::string& text, const SecretFile& secret_file, std::string* why);
OpenRequest open_request(const Target& target, OpenMode mode);
Result<Session> open_session(Target& target, OpenMode mode, std::string* why);

// What the brick says to somebody who only looks; else what speaks against it, in `why`.
Result<BrickStat> look_at_brick(const std::string& text, const SecretFile& secret_file, std::string* why);

// That the volume is kept for a holder who is away, and how long, to stand behind the rest; nothing if it is not.
std::string describe_grace(const Holder& holder);
// Why a volume was not opened.
std::string describe_open_error(const Target& target, Error error, const Holder& holder);
// Why an administrator's call got no answer. `why`: what administer() says.
std::string describe_admin_error(const Target& target, Error error, const std::string& why);
// Why a call failed.
std::string describe_call_error(Error error);

}  // namespace brickfs
