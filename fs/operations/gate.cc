// SPDX-License-Identifier: Apache-2.0
#include "fs/operations/gate.h"

#include <cerrno>

namespace brickfs {

Status gate(FileOperations& files) {
  const Status lost = files.volume().final_error();
  return lost.code() == ECANCELED ? Status() : lost;  // the latter: we end
}

}  // namespace brickfs
