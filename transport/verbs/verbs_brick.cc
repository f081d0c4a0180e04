// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/verbs_brick.h"

#include <atomic>
#include <utility>

#include "transport/base/log.h"
#include "transport/onesided/link.h"
#include "transport/remote/remote_brick.h"
#include "transport/verbs/connector.h"
#include "transport/verbs/device.h"

namespace brickfs {
namespace {

class VerbsBrick final : public RemoteBrick {
 public:
  explicit VerbsBrick(onesided::Peer peer) : peer_(std::move(peer)) {}
  ~VerbsBrick() override { drop_link(); }

  Result<RegisteredMemory> register_memory(std::span<std::byte> memory) override;

 private:
  Result<std::unique_ptr<RemoteLink>> connect(const OpenRequest& request, Holder* holder,
                                              std::function<void(Error)> on_lost) override;

  const onesided::Peer peer_;
  // Registrations outlive the Brick if their owner does.
  const std::shared_ptr<onesided::LocalMemory> memory_ = std::make_shared<onesided::LocalMemory>();
  verbs::Connector connector_{*memory_};
};

Result<std::unique_ptr<RemoteLink>> VerbsBrick::connect(const OpenRequest& request, Holder* holder,
                                                        std::function<void(Error)> on_lost) {
  auto link = onesided::Link::open(peer_, connector_, *memory_, request, holder, std::move(on_lost));
  if (link.ok()) return std::unique_ptr<RemoteLink>(*std::move(link));
  if (!link.error().is(ENODEV)) return link.error();
  static std::atomic<bool> said{false};  // once: a path that failed is tried again and again
  const std::string why = said.exchange(true) ? "" : verbs::why_no_device();
  if (!why.empty()) log::error("{}", why);
  return Error(EHOSTUNREACH, "no RDMA device leads there");
}

Result<RegisteredMemory> VerbsBrick::register_memory(std::span<std::byte> memory) {
  const uint32_t key = TRY(memory_->add(memory));
  return RegisteredMemory(key, [memory = memory_, key] { memory->remove(key); });
}

}  // namespace

std::unique_ptr<Brick> make_verbs_brick(std::vector<HostPort> addresses, const ClientSecret& secret) {
  return std::make_unique<VerbsBrick>(onesided::Peer{std::move(addresses), secret});
}

}  // namespace brickfs
