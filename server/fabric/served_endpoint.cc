// SPDX-License-Identifier: Apache-2.0
#include "server/fabric/served_endpoint.h"

#include <poll.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "transport/base/random.h"
#include "transport/base/short_wait.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

constexpr size_t kServedQueueEntries = 64;
constexpr int kKeyTries = 8;                           // keys are random, so one may be taken
constexpr timespec kBetweenGlances{0, 50'000};         // where nothing tells that a peer wants something
constexpr timespec kBetweenLongGlances{0, 5'000'000};  // once it has not for a while
constexpr std::chrono::milliseconds kQuiet{200};

}  // namespace

FabricServedEndpoint::FabricServedEndpoint(std::shared_ptr<fabric::Domain> domain, UniqueFd stop)
    : domain_(std::move(domain)), stop_(std::move(stop)) {}

Result<std::unique_ptr<FabricServedEndpoint>> FabricServedEndpoint::open(const std::string& provider,
                                                                         const std::string& host, std::string* why) {
  auto found = TRY(fabric::find_provider(provider, host, why));
  auto domain = TRY(fabric::Domain::open(std::move(found)));
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return errno_error("eventfd");
  std::unique_ptr<FabricServedEndpoint> made(new FabricServedEndpoint(std::move(domain), std::move(stop)));
  const fabric::Provider& with = made->provider();
  made->flush_bytes_ = std::make_unique<std::array<std::byte, 8>>();
  {
    MutexLock lock(made->progress_mutex_);
    made->endpoint_ = TRY(fabric::Endpoint::open(made->domain_, kServedQueueEntries));
    made->offer_.name = TRY(made->endpoint_.name());
  }
  if (made->offer_.name.size() > limits::kEndpointNameBytes) return Error(EOVERFLOW, "the endpoint's name is too long");
  made->offer_.provider = with.name();
  made->offer_.virtual_addresses = with.virtual_addresses();
  const bool long_keys = !with.chooses_keys() && with.info->domain_attr->mr_key_size >= sizeof(uint64_t);
  made->offer_.high_keys = long_keys ? random_id<uint32_t>() : 0;
  made->flush_region_ = TRY(made->expose_with(*made->flush_bytes_, FI_REMOTE_READ));
  made->offer_.flush_key = static_cast<uint32_t>(made->flush_region_.key);
  made->offer_.flush_address = with.virtual_addresses() ? reinterpret_cast<uint64_t>(made->flush_bytes_->data()) : 0;
  made->thread_ = std::thread([raw = made.get()] { raw->run(); });
  return made;
}

FabricServedEndpoint::~FabricServedEndpoint() { shut(); }

void FabricServedEndpoint::shut() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
  MutexLock lock(progress_mutex_);
  endpoint_.endpoint.reset();
}

Result<fabric::Region> FabricServedEndpoint::expose(std::span<std::byte> memory, Access access) {
  return expose_with(memory, access == Access::kReadWrite ? FI_REMOTE_READ | FI_REMOTE_WRITE : FI_REMOTE_READ);
}

Result<fabric::Region> FabricServedEndpoint::expose_with(std::span<std::byte> memory, uint64_t rights) {
  MutexLock lock(progress_mutex_);
  if (!endpoint_.endpoint) return Error(ENOTCONN, "the endpoint is shut");
  for (int tries = 1;; ++tries) {
    const uint64_t wanted = uint64_t{offer_.high_keys} << 32 | random_id<uint32_t>();
    auto made = domain_->register_memory(memory, rights, wanted, endpoint_.endpoint.get());
    if (!made.ok() && made.code() == ENOKEY && tries < kKeyTries) continue;
    fabric::Region region = TRY(std::move(made));
    if (region.key >> 32 != offer_.high_keys || static_cast<uint32_t>(region.key) == 0)
      return Error(EOVERFLOW, "the provider's keys are longer than handles have room for");
    return region;
  }
}

void FabricServedEndpoint::withdraw(std::vector<fabric::Region> regions) {
  MutexLock lock(progress_mutex_);
  regions.clear();
}

// True: something came of it, as far as the provider tells: peers' reads and writes are no completions here.
bool FabricServedEndpoint::progress() {
  fi_cq_entry entry{};
  MutexLock lock(progress_mutex_);
  const ssize_t got = fi_cq_read(endpoint_.queue->get(), &entry, 1);
  if (got == -FI_EAVAIL) {
    fi_cq_err_entry error{};
    fi_cq_readerr(endpoint_.queue->get(), &error, 0);
  }
  const uint64_t counted = endpoint_.accesses ? fi_cntr_read(endpoint_.accesses.get()) : 0;
  return std::exchange(accesses_, counted) != counted || got > 0 || got == -FI_EAVAIL;
}

bool FabricServedEndpoint::may_sleep() {
  MutexLock lock(progress_mutex_);
  return endpoint_.queue->may_sleep();
}

void FabricServedEndpoint::run() {
  using Clock = std::chrono::steady_clock;
  const auto queue = [&] {
    MutexLock lock(progress_mutex_);
    return endpoint_.queue;
  }();
  const auto watch = [&](short* stopped, const timespec* patience) {
    pollfd watched[] = {{stop_.get(), POLLIN, 0}, {queue->fd(), POLLIN, 0}};
    const int came = ::ppoll(watched, 2, patience, nullptr);
    *stopped = watched[0].revents;
    return came > 0;
  };
  constexpr timespec kNow{};
  ShortWait wait(ShortWait::kForWork);
  auto active_at = Clock::now();
  for (short stopped = 0; stopped == 0; wait.end()) {
    wait.begin();
    bool came = wait.poll([&] { return progress() || (may_sleep() && watch(&stopped, &kNow)); });
    if (!came) {
      came = progress();
      const timespec& glance = Clock::now() - active_at > kQuiet ? kBetweenLongGlances : kBetweenGlances;
      const bool told = watch(&stopped, may_sleep() ? nullptr : &glance);
      came = came || told;
    }
    if (came) active_at = Clock::now();
  }
}

}  // namespace brickfs
