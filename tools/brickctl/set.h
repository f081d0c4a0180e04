// SPDX-License-Identifier: Apache-2.0
// What the verbs about replicated sets share.
#pragma once

#include <memory>
#include <string>

#include "tools/brickctl/commands.h"
#include "transport/base/result.h"
#include "transport/brick/source.h"
#include "transport/etcd/etcd_map_store.h"

namespace brickfs {

// Of the command's source, which is given, too. With one line in `why`.
Result<std::unique_ptr<MapStore>> open_map_store(const Command& command, Source& source, std::string* why);

// "tcp://a:20470" of "tcp://a:20470/home".
std::string brick_of(const std::string& source);

}  // namespace brickfs
