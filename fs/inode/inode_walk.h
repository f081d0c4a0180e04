// SPDX-License-Identifier: Apache-2.0
// Visits every inode, by ascending number, while nobody else uses the table (recovery, check). A visitor must not erase
// any.
#pragma once

#include <vector>

#include "fs/inode/inode_table.h"

namespace brickfs {

template <typename Visit>
void for_each_inode(const InodeTable& inodes, Visit&& visit) {
  constexpr size_t kNumbersAtOnce = 65536;
  Ino from{1};
  for (std::vector<Ino> numbers; !(numbers = inodes.numbers_from(from, kNumbersAtOnce)).empty();) {
    for (const Ino ino : numbers) visit(*inodes.find(ino));
    from = Ino{raw(numbers.back()) + 1};
  }
}

}  // namespace brickfs
