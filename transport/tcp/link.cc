// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/link.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "transport/brick/limits.h"
#include "transport/tcp/greet.h"

namespace brickfs::tcp {
namespace {

// Up to so many transfers at once, as many as a mount has threads, each has a connection for itself (docs/decisions,
// 37).
constexpr size_t kDataChannels = 12;
static_assert(kDataChannels <= Batch::kRoutes);
// A batch larger than this goes over several connections.
constexpr uint64_t kBytesPerPost = 512 * kKiB;

}  // namespace

Result<std::unique_ptr<Link>> Link::open(const HostPort& peer, const Secret& secret, const OpenRequest& request,
                                         Holder* holder, std::function<void(Error)> on_lost) {
  const Deadline latest = Clock::now() + limits::kConnectTimeout + limits::kHandshakeTimeout;
  auto greeted = TRY(greet(peer, latest));
  const Opened opened = TRY(open_session(*greeted.channel, greeted.nonces, secret, request, holder, greeted.deadline));
  std::unique_ptr<Link> link(new Link(opened.session, std::move(greeted.channel), std::move(on_lost)));
  if (link->wake_watch().fd < 0) return Error(EMFILE, "eventfd");
  if (request.mode != OpenMode::kObserve) {
    const Status attached = link->attach_all(peer, secret, opened.token, latest);
    if (!attached.ok() && !says_cut_off(attached)) return attached.error();
    if (!attached.ok()) link->lose(Error(ENOTCONN, "the session ended at once"));
  }
  link->start_keeper();
  return link;
}

Link::Link(Session session, std::unique_ptr<TcpChannel> calls, std::function<void(Error)> on_lost)
    : RemoteLink(std::move(session), std::move(on_lost)), calls_(std::make_shared<CallChannel>(std::move(calls))) {}

Link::~Link() { Link::stop(); }

Status Link::attach_all(const HostPort& peer, const Secret& secret, const wire::Token& token, Deadline latest) {
  const auto attach_one = [&](wire::Role role) -> Result<std::unique_ptr<TcpChannel>> {
    auto greeted = TRY(greet(peer, latest));
    TRY(attach(*greeted.channel, greeted.nonces, secret, token, role, greeted.deadline));
    return std::move(greeted.channel);
  };
  commits_ = std::make_unique<CallChannel>(TRY(attach_one(wire::Role::kCalls)));
  while (data_.size() < kDataChannels) {
    data_.push_back(std::make_unique<DataChannel>(TRY(attach_one(wire::Role::kTransfers))->release(),
                                                  [this](Error error) { lose(error); }));
  }
  return {};
}

Result<Reply> Link::carry(const calls::Request& request, std::chrono::milliseconds timeout) {
  CallChannel& channel = calls::kind_of(request) == calls::Kind::kCommit && commits_ ? *commits_ : *calls_;
  return channel.call(next_id(), request, timeout);
}

void Link::submit(Batch& batch) {
  absl::InlinedVector<const Transfer*, 16> valid;
  absl::InlinedVector<int, 16> refused;
  const int without_data = !data_.empty() ? 0 : lost() ? ENOTCONN : EACCES;
  const bool too_many = batch.transfers.size() > limits::kTransfersPerBatch;
  for (const Transfer& transfer : batch.transfers) {
    const int code = too_many ? EINVAL : without_data != 0 ? without_data : check_transfer(transfer);
    if (code == 0) {
      valid.push_back(&transfer);
    } else {
      refused.push_back(code);
    }
  }
  if (batch.transfers.empty()) refused.push_back(0);
  batch.begin(valid.size() + refused.size());
  for (const int code : refused) batch.finish_one(code);
  post(batch, valid);
}

// From the last byte sent on the batch may be gone.
void Link::post(Batch& batch, std::span<const Transfer* const> transfers) {
  while (!transfers.empty()) {
    size_t count = 0;
    uint64_t bytes = 0;
    while (count < transfers.size() && (count == 0 || bytes < kBytesPerPost)) bytes += length_of(*transfers[count++]);
    const size_t number = least_loaded();
    batch.add_route(number);
    data_[number]->submit(batch, transfers.first(count));
    transfers = transfers.subspan(count);
  }
}

size_t Link::least_loaded() const {
  const auto least = std::min_element(data_.begin(), data_.end(),
                                      [](const auto& a, const auto& b) { return a->load_bytes() < b->load_bytes(); });
  return static_cast<size_t>(least - data_.begin());
}

void Link::wait(const Batch& batch) {
  for (uint32_t routes = batch.routes(); routes != 0; routes &= routes - 1) {
    data_[static_cast<size_t>(std::countr_zero(routes))]->wait(batch);
  }
}

void Link::watch(Deadline until) {
  std::array<pollfd, 2> watched = {calls_->channel().watch(), wake_watch()};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  ::poll(watched.data(), watched.size(), static_cast<int>(std::max<int64_t>(left, 0)));
  if (watched[0].revents != 0) lose(Error(ENOTCONN, "the brick closed the connection"));
  if (watched[1].revents != 0) take_wake();
}

void Link::renew() {
  if (calls_->busy()) return;
  const auto reply = calls_->call(next_id(), calls::Renew{}, renew_timeout());
  if (!reply.ok()) {
    lose(reply.error());
  } else if (reply->status != 0) {
    lose(calls::explain(reply->status));
  }
}

void Link::cut() {
  calls_->shut_down();
  if (commits_) commits_->shut_down();
  for (const auto& channel : data_) channel->shut_down();
}

void Link::stop() {
  begin_stop();
  for (const auto& channel : data_) channel->stop();
  join_keeper();
}

}  // namespace brickfs::tcp
