// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/fabric_ptr.h"

#include <rdma/fi_errno.h>

#include "transport/base/log.h"

namespace brickfs::fabric {

void Close::close(fid* object) {
  const int code = fi_close(object);
  if (code != 0)
    log::error("a libfabric object of class {} is not closed: {}", object->fclass, library().error_text(-code));
}

Error error_of(ssize_t code, const char* what) {
  const ssize_t number = -code;
  return Error(number > 0 && number < FI_ERRNO_OFFSET ? static_cast<int>(number) : EIO, what);
}

}  // namespace brickfs::fabric
