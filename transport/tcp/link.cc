// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/link.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <bit>
#include <system_error>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "transport/brick/limits.h"
#include "transport/tcp/greet.h"

namespace brickfs::tcp {
namespace {

using std::chrono::milliseconds;

// Another connection is not worth more: the keeper has the lease to see to.
constexpr milliseconds kAddTimeout{500};
constexpr milliseconds kAddAgain{5'000};
// A batch larger than this goes over several connections.
constexpr uint64_t kBytesPerPost = 512 * kKiB;

}  // namespace

Result<std::unique_ptr<Link>> Link::open(const HostPort& peer, const ClientSecret& secret, const OpenRequest& request,
                                         Holder* holder, std::function<void(Error)> on_lost) {
  const Deadline latest = Clock::now() + limits::kConnectTimeout + limits::kHandshakeTimeout;
  std::unique_ptr<TcpChannel> channel;
  const Opened opened = TRY(prove_with(secret, [&](const Secret& known) -> Result<Opened> {
    auto greeted = TRY(greet(peer, latest, secret.tls(), known));
    channel = std::move(greeted.channel);
    return open_session(*channel, greeted.nonces, known, request, holder, greeted.deadline);
  }));
  warn_if_in_the_clear(peer, secret.tls(), channel->stream());
  std::unique_ptr<Link> link(
      new Link(opened.session, {peer, secret, opened.secret, opened.token}, std::move(channel), std::move(on_lost)));
  if (link->wake_watch().fd < 0) return Error(EMFILE, "eventfd");
  if (request.mode != OpenMode::kObserve) {
    const Status attached = link->attach_first(latest);
    if (!attached.ok() && !says_cut_off(attached)) return attached.error();
    if (!attached.ok()) link->lose(Error(ENOTCONN, "the session ended at once"));
  }
  link->start_keeper();
  return link;
}

Link::Link(Session session, Peer peer, std::unique_ptr<TcpChannel> calls, std::function<void(Error)> on_lost)
    : RemoteLink(std::move(session), std::move(on_lost)),
      peer_(std::move(peer)),
      encrypted_(calls->stream().is_encrypted()),
      calls_(std::make_shared<CallChannel>(std::move(calls))) {}

Link::~Link() { Link::stop(); }

Result<std::unique_ptr<TcpChannel>> Link::attach_one(wire::Role role, Deadline latest) const {
  return prove_with(peer_.secret, peer_.opened_by, [&](const Secret& known) -> Result<std::unique_ptr<TcpChannel>> {
    auto greeted = TRY(greet(peer_.address, latest, peer_.secret.tls(), known));
    TRY(attach(*greeted.channel, greeted.nonces, known, peer_.token, role, greeted.deadline));
    return std::move(greeted.channel);
  });
}

Result<std::unique_ptr<Channel>> Link::attach_calls(Deadline latest) {
  return std::unique_ptr<Channel>(TRY(attach_one(wire::Role::kCalls, latest)));
}

Status Link::attach_first(Deadline latest) {
  auto commits = TRY(attach_one(wire::Role::kCalls, latest));
  commits_fd_ = commits->fd();
  commits_ = std::make_unique<CallChannel>(std::move(commits));
  return add_channel(latest);
}

// What cut() does not see any more is not added.
Status Link::add_channel(Deadline latest) {
  Stream stream = TRY(attach_one(wire::Role::kTransfers, latest))->release();
  std::unique_ptr<DataChannel> channel;
  try {
    channel = std::make_unique<DataChannel>(std::move(stream), [this](Error error) { lose(error); });
  } catch (const std::system_error& error) {
    return Error(error.code().value(), "a thread for the connection");
  }
  MutexLock lock(data_mutex_);
  if (is_over()) return Error(ENOTCONN, "the session has ended");
  const size_t number = data_count_.load(std::memory_order_relaxed);
  data_[number] = std::move(channel);
  data_count_.store(number + 1, std::memory_order_release);
  return {};
}

void Link::add_channel_if_wanted() {
  if (!channel_wanted_.load(std::memory_order_relaxed) || is_over() || Clock::now() < add_after_) return;
  if (data().size() < kDataChannels && !add_channel(Clock::now() + kAddTimeout).ok()) {
    add_after_ = Clock::now() + kAddAgain;
  }
  channel_wanted_.store(false, std::memory_order_relaxed);
}

Result<Reply> Link::carry(const calls::Request& request, std::chrono::milliseconds timeout) {
  CallChannel& channel = calls::kind_of(request) == calls::Kind::kCommit && commits_ ? *commits_ : *calls_;
  return channel.call(next_id(), request, timeout);
}

void Link::submit(Batch& batch) {
  absl::InlinedVector<const Transfer*, 16> valid;
  absl::InlinedVector<int, 16> refused;
  const int without_data = !data().empty() ? 0 : lost() ? ENOTCONN : EACCES;
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
    size_t number = 0;
    DataChannel& channel = least_loaded(&number);
    batch.add_route(number);
    channel.submit(batch, transfers.first(count));
    transfers = transfers.subspan(count);
  }
}

DataChannel& Link::least_loaded(size_t* number) {
  const auto channels = data();
  const auto least = std::ranges::min_element(channels, {}, [](const auto& channel) { return channel->load_bytes(); });
  const bool all_busy = (*least)->load_bytes() > 0 && channels.size() < kDataChannels;
  if (all_busy && !channel_wanted_.load(std::memory_order_relaxed) && !channel_wanted_.exchange(true)) wake_keeper();
  *number = static_cast<size_t>(least - channels.begin());
  return **least;
}

// One of a former session is complete, and its routes may be none of this one.
void Link::wait(const Batch& batch) {
  for (uint32_t routes = batch.routes(); routes != 0 && !batch.complete(); routes &= routes - 1) {
    data()[static_cast<size_t>(std::countr_zero(routes))]->wait(batch);
  }
}

void Link::watch(Deadline until) {
  std::array<pollfd, 2> watched = {calls_->channel().watch(), wake_watch()};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  ::poll(watched.data(), watched.size(), static_cast<int>(std::max<int64_t>(left, 0)));
  if (watched[0].revents != 0) lose(Error(ENOTCONN, "the brick closed the connection"));
  if (watched[1].revents != 0) take_wake();
  add_channel_if_wanted();
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

// A commit may name as many ranges as fill large packets; once the brick has them, its disk takes what it takes.
std::chrono::milliseconds Link::stall() {
  std::chrono::milliseconds longest{0};
  if (commits_) longest = commits_stall_.look(commits_fd_, commits_->busy() && has_unacknowledged(commits_fd_));
  for (const auto& channel : data()) longest = std::max(longest, channel->stall());
  return longest;
}

// Once the session is lost.
std::span<const std::unique_ptr<DataChannel>> Link::final_data() {
  MutexLock lock(data_mutex_);
  return data();
}

void Link::cut() {
  calls_->shut_down();
  if (commits_) commits_->shut_down();
  for (const auto& channel : final_data()) channel->shut_down();
}

void Link::stop() {
  begin_stop();
  for (const auto& channel : final_data()) channel->stop();
  join_keeper();
}

}  // namespace brickfs::tcp
