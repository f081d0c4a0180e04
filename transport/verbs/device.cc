// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "transport/base/log.h"
#include "transport/base/size.h"
#include "transport/brick/limits.h"

namespace brickfs::verbs {
namespace {

std::string locked_memory_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return format_size(limit.rlim_cur);
}

bool may_open_devices() {
  const int fd = ::open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
  if (fd >= 0) ::close(fd);
  return fd >= 0 || errno != EACCES;
}

// The first failure of each kind explains itself; the rest would only repeat it.
void explain_failure(int code, size_t bytes) {
  static std::atomic<bool> said_memory{false};
  static std::atomic<bool> said_other{false};
  const bool memory = code == ENOMEM || code == EPERM;
  if ((memory ? said_memory : said_other).exchange(true)) return;
  if (memory) {
    log::error(
        "cannot register {} of memory with the RDMA device: the limit of locked memory is {} (ulimit -l, LimitMEMLOCK= "
        "in "
        "systemd; raise it), or the device has no room for more regions",
        format_size(bytes), locked_memory_limit());
  } else {
    log::error("cannot register {} of memory with the RDMA device: {}", format_size(bytes), std::strerror(code));
  }
}

}  // namespace

Result<DeviceFacts> look_at(ibv_context* device) {
  ibv_device_attr attributes{};
  if (ibv_query_device(device, &attributes) != 0) return Error(ENODEV, "the RDMA device does not describe itself");
  DeviceFacts facts;
  facts.name = ibv_get_device_name(device->device);
  // Reads may be allowed fewer entries than sends; the lesser serves for both.
  facts.slices = static_cast<uint32_t>(std::max(
      1, std::min(attributes.max_sge, attributes.max_sge_rd > 0 ? attributes.max_sge_rd : attributes.max_sge)));
  facts.reads_out =
      std::clamp<uint32_t>(static_cast<uint32_t>(attributes.max_qp_init_rd_atom), 1, limits::kReadsInFlight);
  facts.reads_in = std::clamp<uint32_t>(static_cast<uint32_t>(attributes.max_qp_rd_atom), 1, limits::kReadsInFlight);
  facts.regions = static_cast<uint32_t>(attributes.max_mr);
  facts.claims_windows = (attributes.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0 && attributes.max_mw > 0;
  ibv_port_attr port{};
  facts.message_bytes = ibv_query_port(device, 1, &port) == 0 && port.max_msg_sz > 0 ? port.max_msg_sz : kMiB;
  return facts;
}

std::string why_no_device() {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  const int code = errno;
  if (devices != nullptr) ibv_free_device_list(devices);
  if (devices == nullptr || count == 0) {
    const bool no_kernel = devices == nullptr && code == ENOSYS;
    return fmt::format("no RDMA device here: {}; use tcp:// instead",
                       no_kernel ? "the kernel has no RDMA (modprobe ib_uverbs rdma_ucm)"
                                 : "none is known to the kernel (ibv_devices lists them)");
  }
  if (::access("/dev/infiniband/rdma_cm", F_OK) != 0) {
    return "no RDMA connections here: /dev/infiniband/rdma_cm is missing (modprobe rdma_ucm); use tcp:// instead";
  }
  if (!may_open_devices())
    return "no permission on /dev/infiniband/rdma_cm: run as root, or change its mode; or use tcp://";
  return "";
}

Result<MrPtr> register_region(ibv_pd* domain, std::span<std::byte> memory, int access) {
  MrPtr region(ibv_reg_mr(domain, memory.data(), memory.size(), access));
  if (region) return region;
  const int code = errno;
  explain_failure(code, memory.size());
  return Error(code == EPERM ? EPERM : ENOMEM, kCannotRegister);
}

Result<PdPtr> make_domain(ibv_context* device) {
  PdPtr domain(ibv_alloc_pd(device));
  if (!domain) return Error(ENOMEM, "the RDMA device has no protection domain left");
  return domain;
}

Result<CompChannelPtr> make_completion_channel(ibv_context* device) {
  CompChannelPtr channel(ibv_create_comp_channel(device));
  if (!channel) return Error(EMFILE, "no completion channel");
  ::fcntl(channel->fd, F_SETFL, ::fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  return channel;
}

}  // namespace brickfs::verbs
