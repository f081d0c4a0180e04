// SPDX-License-Identifier: Apache-2.0
#include "fs/operations/link_attribute.h"

#include <span>
#include <string>

namespace brickfs {

std::vector<std::byte> describe_link(FileOperations& files) {
  const LinkState link = files.volume().link_state();
  const std::string store_trouble = files.store_trouble();
  std::string text;
  if (link.kind == LinkState::Kind::kSilent) text = "silent: ";
  if (link.kind == LinkState::Kind::kWaiting) text = "waiting: ";
  if (link.kind == LinkState::Kind::kFailed) text = "failed: ";
  text += link.text;
  if (!store_trouble.empty()) text += "; store: " + store_trouble;
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace brickfs
