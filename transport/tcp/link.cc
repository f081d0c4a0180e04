// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/link.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <array>

#include "transport/brick/limits.h"
#include "transport/brick/remote_calls.h"

namespace brickfs::tcp {
namespace {

// Up to so many transfers at once, as many as a mount has threads, each has a connection for itself (docs/decisions,
// 37).
constexpr size_t kDataChannels = 12;
// A batch larger than this goes over several connections.
constexpr uint64_t kBytesPerPost = 512 * kKiB;
// A brick that does not answer a renewal for so long is given up while the lease still lasts.
constexpr auto kRenewTimeout = limits::kLease - limits::kKeepAlive;

}  // namespace

Result<std::unique_ptr<Link>> Link::open(const Peer& peer, const OpenRequest& request, Holder* holder,
                                         std::function<void(Error)> on_lost) {
  const Deadline latest = Clock::now() + limits::kConnectTimeout + limits::kHandshakeTimeout;
  Opened opened = TRY(open_session(peer, request, holder, latest));
  const wire::Token token = opened.token;
  std::unique_ptr<Link> link(new Link(std::move(opened), std::move(on_lost)));
  if (!link->wake_) return Error(EMFILE, "eventfd");
  if (request.mode != OpenMode::kObserve) {
    const Status attached = link->attach_all(peer, token, latest);
    // Taken over meanwhile: the lease was granted all the same, and the session is lost like any other.
    const bool cut_off = attached.code() == EACCES || attached.code() == ENOTCONN || attached.code() == EKEYREJECTED;
    if (!attached.ok() && !cut_off) return attached.error();
    if (cut_off) link->lose(Error(ENOTCONN, "the session ended at once"));
  }
  link->keeper_ = std::thread([raw = link.get()] { raw->keep_alive(); });
  return link;
}

Link::Link(Opened opened, std::function<void(Error)> on_lost)
    : session_(opened.session),
      on_lost_(std::move(on_lost)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      calls_(std::move(opened.fd)) {}

Link::~Link() { stop(); }

Status Link::attach_all(const Peer& peer, const wire::Token& token, Deadline latest) {
  commits_ = std::make_unique<CallChannel>(TRY(attach(peer, token, wire::Role::kCalls, latest)));
  while (data_.size() < kDataChannels) {
    data_.push_back(std::make_unique<DataChannel>(TRY(attach(peer, token, wire::Role::kTransfers, latest)),
                                                  [this](Error error) { lose(error); }));
  }
  return {};
}

Result<std::vector<std::byte>> Link::call(wire::Kind kind, std::span<const std::byte> body) {
  CallChannel& channel = kind == wire::Kind::kCommit && commits_ ? *commits_ : calls_;
  auto answer = channel.call(kind, body, limits::kCallTimeout);
  if (!answer.ok()) {
    const auto before = lost();
    lose(answer.error());
    return before.value_or(answer.error());
  }
  if (answer->status == 0) return std::move(answer->body);
  const Error error = explain_call(answer->status);
  if (error.is(ENOTCONN)) lose(error);
  return error;
}

Result<std::vector<Handle>> Link::map(BlockRange blocks, Access access) {
  const wire::MapCall asked{wire::to_record(blocks), static_cast<uint32_t>(access), 0};
  const auto body = TRY(call(wire::Kind::kMap, bytes_of(asked)));
  return checked(*this, wire::decode_handles(body, blocks, access));
}

Status Link::revoke(wire::Kind kind, BlockRange blocks) {
  TRY(call(kind, bytes_of(wire::to_record(blocks))));
  return {};
}

Status Link::commit(std::span<const std::byte> body) {
  TRY(call(wire::Kind::kCommit, body));
  return {};
}

void Link::submit(Batch& batch) {
  std::vector<const Transfer*> valid;
  valid.reserve(batch.transfers.size());
  std::vector<int> refused;
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
    least_loaded().submit(batch, transfers.first(count));
    transfers = transfers.subspan(count);
  }
}

DataChannel& Link::least_loaded() {
  const auto least = std::min_element(data_.begin(), data_.end(),
                                      [](const auto& a, const auto& b) { return a->load_bytes() < b->load_bytes(); });
  return **least;
}

void Link::wait(const Batch& batch) {
  for (const auto& channel : data_) channel->wait(batch);
}

// It is the same with every connection of the session; calls are answered soonest.
std::chrono::milliseconds Link::silence() {
  if (!calls_.busy() && !ask_.exchange(true)) wake_keeper();
  return calls_.silence();
}

void Link::keep_alive() {
  while (true) {
    std::array<pollfd, 2> watched = {pollfd{calls_.fd(), POLLRDHUP, 0}, pollfd{wake_.get(), POLLIN, 0}};
    const int ready = ::poll(watched.data(), watched.size(), static_cast<int>(limits::kKeepAlive.count()));
    if (ready > 0 && watched[0].revents != 0) lose(Error(ENOTCONN, "the brick closed the connection"));
    uint64_t count = 0;
    if (watched[1].revents != 0) [[maybe_unused]]
      const ssize_t got = ::read(wake_.get(), &count, sizeof(count));
    const bool asked = ask_.exchange(false);
    if ((ready == 0 || asked) && !calls_.busy()) renew();
    MutexLock lock(mutex_);
    if (stopping_) return;
    if (!lost_) continue;
    const Error error = *lost_;
    lock.unlock();
    on_lost_(error);
    return;
  }
}

void Link::renew() {
  const auto answer = calls_.call(wire::Kind::kRenew, {}, kRenewTimeout);
  if (!answer.ok()) {
    lose(answer.error());
  } else if (answer->status != 0) {
    lose(explain_call(answer->status));
  }
}

std::optional<Error> Link::lost() const {
  MutexLock lock(mutex_);
  return lost_;
}

void Link::wake_keeper() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));  // full: it is awake already
}

void Link::lose(Error error) {
  {
    MutexLock lock(mutex_);
    if (lost_) return;
    lost_ = Error(ENOTCONN, error.what());
  }
  calls_.shut_down();
  if (commits_) commits_->shut_down();
  for (const auto& channel : data_) channel->shut_down();
  wake_keeper();
}

Status Link::close() {
  {
    MutexLock lock(mutex_);
    if (lost_) return *lost_;
    stopping_ = true;
  }
  const auto answer = calls_.call(wire::Kind::kClose, {}, limits::kHandshakeTimeout);
  stop();
  if (!answer.ok()) return answer.error();
  if (answer->status != 0) return explain_call(answer->status);
  return {};
}

void Link::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_keeper();
  lose(Error(ENOTCONN, "the session has ended"));
  for (const auto& channel : data_) channel->stop();
  if (keeper_.joinable()) keeper_.join();
}

}  // namespace brickfs::tcp
