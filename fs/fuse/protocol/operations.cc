// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/protocol/operations.h"

#include <array>

#include "transport/base/check.h"

namespace brickfs {
namespace {

using Table = std::array<const FuseOperation*, kOpcodes>;  // by opcode

Table table_of_all() {
  Table table{};
  for (const auto group : {name_operations(), directory_operations(), attribute_operations(), data_operations()}) {
    for (const FuseOperation& operation : group) {
      CHECK(operation.opcode < kOpcodes && table[operation.opcode] == nullptr);
      table[operation.opcode] = &operation;
    }
  }
  return table;
}

}  // namespace

const FuseOperation* find_operation(uint32_t opcode) {
  static const Table table = table_of_all();
  return opcode < table.size() ? table[opcode] : nullptr;
}

}  // namespace brickfs
