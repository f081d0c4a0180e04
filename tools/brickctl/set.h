// SPDX-License-Identifier: Apache-2.0
// What the verbs about replicated sets share.
#pragma once

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "tools/brickctl/commands.h"
#include "transport/base/result.h"
#include "transport/brick/source.h"
#include "transport/etcd/etcd_map_store.h"

namespace brickfs {

// Of the command's source, which is given, too. With one line in `why`.
Result<std::unique_ptr<EtcdMapStore>> open_map_store(const Command& command, Source& source, std::string* why);

// With `text` in `why`.
Error refuse_set(std::string* why, std::string text, int code = EINVAL);

// A brick as the map names it, "tcp://a:20470"; and all that a command names, with their domains.
Result<std::string> name_of_brick(const std::string& text, std::string* why);
Result<std::vector<NamedBrick>> name_bricks(const SetOptions& options, std::string* why);
bool is_domain(const std::string& text);

// "tcp://a:20470" of "tcp://a:20470/home".
std::string brick_of(const std::string& source);

}  // namespace brickfs
