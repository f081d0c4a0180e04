// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/connector.h"

#include <algorithm>
#include <utility>

#include "transport/brick/limits.h"
#include "transport/verbs/greet.h"
#include "transport/verbs/message_channel.h"

namespace brickfs::verbs {
namespace {

// rdma_cm tells of a connection's end.
class PairEnd final : public onesided::ConnectionEnd {
 public:
  explicit PairEnd(CmChannelPtr events) : events_(std::move(events)) {}
  pollfd watch() const override { return {events_->fd, POLLIN, 0}; }
  bool has_ended() override { return verbs::has_ended(*events_); }

 private:
  const CmChannelPtr events_;
};

ibv_context* device_in(Channel& calls) { return static_cast<MessageChannel&>(calls).id().id->verbs; }

}  // namespace

Result<Greeted<Channel>> Connector::greet(const HostPort& address, Deadline latest, TlsMode, const Secret&) {
  auto greeted = TRY(verbs::greet(address, latest));
  return Greeted<Channel>{std::move(greeted.channel), greeted.nonces, greeted.deadline};
}

std::string Connector::device_of(Channel& calls) const { return ibv_get_device_name(device_in(calls)->device); }

Status Connector::find_way(const HostPort& address, Deadline latest) {
  const auto found = find_path(address, latest);
  return found.ok() ? Status() : Status(found.error());
}

Result<std::shared_ptr<CompletionChannel>> Connector::completions_of(ibv_context* device) {
  MutexLock lock(mutex_);
  const auto found = std::ranges::find(completions_, device, [](const auto& one) { return one->get()->context; });
  if (found != completions_.end()) return *found;
  completions_.push_back(TRY(CompletionChannel::make(device)));
  return completions_.back();
}

Result<OpenedPair> open_queue_pair(const HostPort& address, const calls::QueuePairOffer& offer,
                                   onesided::LocalMemory& memory, std::shared_ptr<CompletionChannel> completions,
                                   Deadline latest) {
  const Deadline deadline = std::min<Deadline>(latest, Clock::now() + limits::kConnectTimeout);
  CmId id = TRY(find_path(address, deadline));
  if (id.id->verbs != completions->get()->context)
    return Error(ENODEV, "the address is reached through another device now");
  ClientDevice* const device = TRY(ClientDevice::find(memory, id.id->verbs));
  QueuePair::Opened opened = TRY(QueuePair::make(std::move(id), offer.pair, *device, completions->get()));
  ConnectRequest request;
  request.purpose = static_cast<uint16_t>(Purpose::kQueuePair);
  std::copy(offer.ticket.begin(), offer.ticket.end(), request.nonce.begin());
  opened.reply = TRY(verbs::connect(opened.id, request, device->facts(), deadline));
  OpenedPair made;
  made.windows = (opened.reply.flags & kReplyWindows) != 0;
  made.events = std::move(opened.id.channel);
  made.pair = std::make_unique<QueuePair>(std::move(opened), *device, std::move(completions), memory);
  return made;
}

Result<onesided::Connected> Connector::connect(const onesided::Place& place, Deadline latest) {
  const auto offer = std::get<calls::QueuePairOffer>(TRY(place.ask(calls::QueuePair{})));
  place.offered(offer.pair);
  auto completions = TRY(completions_of(device_in(place.calls)));
  auto opened = TRY(open_queue_pair(place.address, offer, memory_, std::move(completions), latest));
  return onesided::Connected{std::make_unique<PairEnd>(std::move(opened.events)), std::move(opened.pair),
                             opened.windows ? "type-2 windows" : "a region for each run"};
}

}  // namespace brickfs::verbs
