// SPDX-License-Identifier: Apache-2.0
// All that a user can see of a tree but times, as text: equal trees have equal dumps.
#pragma once

#include <string>

#include "fs/operations/filesystem.h"

namespace brickfs {

// Never fails: an error of an operation is part of the text.
std::string dump_tree(Filesystem& filesystem);

}  // namespace brickfs
