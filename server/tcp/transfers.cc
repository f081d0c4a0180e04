// SPDX-License-Identifier: Apache-2.0
// Payload goes between the socket and the pinned block. Requests that came together are answered together.
#include "server/tcp/transfers.h"

#include <array>
#include <utility>

#include "server/tcp/incoming.h"
#include "transport/brick/wire.h"
#include "transport/tcp/socket.h"

namespace brickfs {
namespace {

// Answers that wait to be sent. While any does, the session counts a transfer as under way: its blocks may be touched.
class Answers {
 public:
  Answers(tcp::Stream& stream, PeerSession& session) : stream_(stream), session_(session) {}
  ~Answers() { drop(); }
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  // Before the blocks of the next request are touched. False: the session is over.
  bool begin() { return begun_ || (begun_ = session_.begin_transfer()); }
  bool full() const { return count_ == kMost || bytes_ >= kEnough; }
  void add(const wire::TransferHeader& header, int code) {
    headers_[count_] = {static_cast<uint32_t>(code), 0, header.id};
    add_part(bytes_of(headers_[count_]));
    ++count_;
  }
  void add(const wire::TransferHeader& header, Pin bytes) {
    headers_[count_] = {0, header.length_bytes, header.id};
    add_part(bytes_of(headers_[count_]));
    add_part(bytes.bytes());
    pins_[count_++] = std::move(bytes);
  }
  Status send() {
    const Status sent = count_ == 0 ? Status() : stream_.send_all(std::span(parts_).first(parts_count_));
    drop();
    return sent;
  }

 private:
  static constexpr size_t kMost = 16;
  static constexpr size_t kEnough = 64 * kKiB;

  void add_part(std::span<const std::byte> bytes) {
    parts_[parts_count_++] = tcp::to_iovec(bytes);
    bytes_ += bytes.size();
  }
  void drop() {
    while (count_ > 0) pins_[--count_] = Pin();
    parts_count_ = 0;
    bytes_ = 0;
    if (begun_) session_.end_transfer();
    begun_ = false;
  }

  tcp::Stream& stream_;
  PeerSession& session_;
  bool begun_ = false;
  size_t count_ = 0;
  size_t parts_count_ = 0;
  size_t bytes_ = 0;
  std::array<wire::TransferAnswer, kMost> headers_;
  std::array<Pin, kMost> pins_;
  std::array<iovec, 2 * kMost> parts_;
};

Error session_over() { return Error(ENOTCONN, "the session is over"); }

Status serve_read(ServerSession& session, const wire::TransferHeader& header, Answers& answers) {
  auto pin = session.pin(header.remote_key, header.remote_address, header.length_bytes, Access::kRead);
  if (pin.ok()) {
    answers.add(header, std::move(*pin));
  } else if (pin.code() == ESTALE) {
    return session_over();
  } else {
    answers.add(header, pin.code());
  }
  return {};
}

Status serve_write(ServerSession& session, const wire::TransferHeader& header, TcpIncoming& incoming,
                   Answers& answers) {
  {
    const auto pin = session.pin(header.remote_key, header.remote_address, header.length_bytes, Access::kReadWrite);
    if (pin.code() == ESTALE) return session_over();
    TRY(pin.ok() ? incoming.take(pin->bytes())
                 : incoming.discard(header.length_bytes));  // a refused one's bytes come all the same
    if (!pin.ok()) {
      answers.add(header, pin.code());
      return {};
    }
  }  // unpinned before the answer: a commit or unmap that follows it finds the bytes settled
  answers.add(header, 0);
  return {};
}

Status serve_next(TcpIncoming& incoming, PeerSession& session, Answers& answers, PeerCounters& counters) {
  // Nothing is waited for with an answer in hand.
  if (!incoming.holds(sizeof(wire::TransferHeader)) || answers.full()) TRY(answers.send());
  const wire::TransferHeader header = TRY(incoming.next());
  const bool writes = header.kind == wire::kWriteTransfer;
  if (writes && !incoming.holds(header.length_bytes)) TRY(answers.send());
  if (!answers.begin()) return session_over();
  ServerSession& server = session.server_session();
  server.touch();
  const Direction direction = writes ? Direction::kWrite : Direction::kRead;
  counters.transferred(direction, header.length_bytes);
  server.counters().transferred(direction, header.length_bytes);
  if (writes) return serve_write(server, header, incoming, answers);
  return serve_read(server, header, answers);
}

}  // namespace

void serve_transfers(tcp::Stream& stream, PeerSession& session, PeerCounters& counters) {
  TcpIncoming incoming(stream);
  Answers answers(stream, session);
  while (serve_next(incoming, session, answers, counters).ok()) {
  }
}

}  // namespace brickfs
