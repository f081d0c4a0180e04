// SPDX-License-Identifier: Apache-2.0
// Between a client and a brick.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "server/peers/first_call.h"
#include "server/peers/peer_session.h"
#include "server/service/brick_service.h"
#include "server/tcp/transfers.h"
#include "tests/fuzz/fuzz_input.h"
#include "transport/base/check.h"
#include "transport/base/unique_fd.h"
#include "transport/brick/administration.h"
#include "transport/remote/handshake.h"
#include "transport/tcp/tls.h"

namespace brickfs::fuzz {
namespace {

constexpr uint64_t kBrickBlocks = 8;

// A client that has the volume of a brick of this process.
class Served {
 public:
  Served() {
    std::string why;
    BrickConfig config;
    config.memory_bytes = kBrickBlocks * kBlockBytes;
    auto service = BrickService::open(config, &why);
    CHECK(service.ok());
    service_ = *std::move(service);
    OpenRequest request;
    request.client = ClientId{1};
    request.client_name = "fuzz";
    request.volume = "default";
    session_ = std::make_shared<PeerSession>(nullptr);
    auto opened = service_->open_session(request, PeerSession::end_of(session_), nullptr);
    CHECK(opened.ok());
    session_->set_server_session(*std::move(opened), "default");
  }
  ~Served() {
    session_->end();
    session_.reset();
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  PeerSession& session() { return *session_; }
  BrickService& service() { return *service_; }

 private:
  std::unique_ptr<BrickService> service_;
  std::shared_ptr<PeerSession> session_;
};

// A brick whose messages are the input, one after the other, most of them with the proof that belongs there.
class ScriptedChannel final : public Channel {
 public:
  ScriptedChannel(Input input, const Nonces& nonces, std::string_view purpose)
      : messages_(input), nonces_(nonces), purpose_(purpose) {}
  Status reserve(size_t) override { return {}; }
  Status send(const wire::CallHeader& header, std::span<const std::byte>) override {
    last_ = header;
    return {};
  }
  Status wait(Deadline) override { return messages_.empty() ? Status(Error(ENOTCONN, "no more")) : Status(); }
  // An answer to what was asked last, most times.
  Result<Message> receive(Deadline) override {
    if (messages_.empty()) return Error(ENOTCONN, "no more");
    Message message;
    const auto lies = messages_.number<uint8_t>();
    message.header = answer_header(last_, messages_.number<uint16_t>() % (wire::kHighestErrno + 2));
    if ((lies & 1) != 0) message.header.status = 0;
    if ((lies & 2) != 0) message.header.kind = messages_.number<uint16_t>();
    if ((lies & 4) != 0) message.header.id = messages_.number<uint64_t>();
    const Input body = messages_.piece();
    message.body.assign(body.begin(), body.end());
    if ((lies & 8) == 0) {
      const Proof proof = make_proof(Secret{}, purpose_, nonces_, body);
      message.body.insert(message.body.end(), proof.begin(), proof.end());
    }
    message.header.length_bytes = static_cast<uint32_t>(message.body.size());
    return message;
  }
  pollfd watch() const override { return {-1, 0, 0}; }
  bool peer_has_gone() override { return messages_.empty(); }
  void shut_down() override {}

 private:
  Cut messages_;
  const Nonces& nonces_;
  const std::string_view purpose_;
  wire::CallHeader last_{};
};

template <size_t... kAt>
void decode_each_answer(Input body, std::index_sequence<kAt...>) {
  (static_cast<void>(calls::decode_answer(calls::Request(std::in_place_index<kAt>), body)), ...);
}

void decode_administration(Cut cut) {
  const auto action = static_cast<AdminAction>(1 + cut.number<uint8_t>() % 8);
  const int status = cut.number<uint8_t>();
  static_cast<void>(decode_admin_answer(action, status, cut.rest()));
}

void administer_as_asked(const Result<AdminRequest>& request) {
  if (!request.ok() || !check(*request).ok()) return;
  Served served;
  const AdminAnswer answer = served.service().administer(*request);
  CHECK(decode_admin_answer(request->action, answer.status, encode(answer)).ok());
}

// Everybody's answers go somewhere.
class Drained {
 public:
  explicit Drained(int fd)
      : thread_([fd] {
          std::vector<std::byte> room(64 * kKiB);
          while (read(fd, room.data(), room.size()) > 0) {
          }
        }) {}
  ~Drained() { thread_.join(); }

 private:
  std::thread thread_;
};

// With the handles that there are, as an attacker's would be: the same numbers in most fields.
std::vector<std::byte> frames_in(Cut cut, const std::vector<Handle>& handles) {
  std::vector<std::byte> frames;
  while (!cut.empty()) {
    wire::TransferHeader header;
    const auto how = cut.number<uint8_t>();
    const Handle& handle = handles[how % handles.size()];
    header.kind = (how & 8) != 0 ? wire::kWriteTransfer : wire::kReadTransfer;
    header.remote_key = handle.remote_key + ((how & 16) != 0 ? cut.number<uint8_t>() : 0);
    header.remote_address = handle.remote_address + ((how & 32) != 0 ? cut.number<uint64_t>() : cut.number<uint16_t>());
    header.length_bytes = (how & 64) != 0 ? cut.number<uint32_t>() : cut.number<uint16_t>();
    if ((how & 128) != 0) header.reserved = cut.number<uint8_t>();
    const auto bytes = bytes_of(header);
    frames.insert(frames.end(), bytes.begin(), bytes.end());
    const Input payload = cut.piece();
    frames.insert(frames.end(), payload.begin(), payload.end());
  }
  return frames;
}

}  // namespace

void first_calls(Input input) {
  Cut cut(input);
  const auto kind = cut.number<uint16_t>();
  const Input body = cut.rest();
  const Nonces nonces;
  const std::vector<Secret> secrets = {Secret{}, Secret{SecretBytes("a secret")}};
  static_cast<void>(check_first_call(credentials_of(secrets), nonces, kind, body));
  static_cast<void>(token_in(kind, body));
  static_cast<void>(volume_in(kind, body));
  PeerSessions sessions;
  static_cast<void>(owner_of(kind, body, sessions));
  if (const auto call = wire::decode<wire::OpenCall>(body); call.ok()) static_cast<void>(wire::from_call(*call));
  if (const auto call = wire::decode<wire::AdminCall>(body); call.ok()) administer_as_asked(from_call(*call));
  if (const auto call = wire::decode<wire::KeyCall>(body); call.ok())
    administer_as_asked(from_key_call(*call, secrets.front(), nonces));
}

void brick_calls(Input input) {
  Served served;
  Cut cut(input);
  for (uint64_t id = 1; !cut.empty(); ++id) {
    const auto kind = static_cast<calls::Kind>(cut.number<uint8_t>() % 24);
    const auto again = cut.number<uint8_t>();
    auto request = calls::decode_request(kind, cut.piece());
    if (!request.ok() || !calls::check(*request).ok()) continue;
    if (auto* const wait = std::get_if<calls::Wait>(&*request)) wait->patience = {};
    const auto answer = served.session().call(again < 16 ? id - 1 : id, *request, nullptr);
    if (answer.ok()) CHECK(calls::decode_answer(*request, calls::encode(*answer)).ok());
  }
}

void transfers(Input input) {
  Served served;
  ServerSession& session = served.session().server_session();
  const BlockRange blocks{BlockAddress{0}, 2};
  CHECK(session.alloc(blocks).ok());
  std::vector<Handle> handles = *session.map(blocks, Access::kReadWrite);
  handles.push_back(session.map({BlockAddress{0}, 1}, Access::kRead)->front());
  const std::vector<std::byte> frames = frames_in(Cut(input), handles);
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const UniqueFd peer(ends[0]);
  tcp::Stream own{UniqueFd(ends[1])};
  PeerCounters counters;
  const Drained drained(peer.get());
  std::thread writer([&] {
    for (size_t sent = 0; sent < frames.size();) {
      const ssize_t n = send(peer.get(), frames.data() + sent, frames.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += static_cast<size_t>(n);
    }
    shutdown(peer.get(), SHUT_WR);
  });
  serve_transfers(own, served.session(), counters);
  own.shut_down();
  writer.join();
}

void handshakes(Input input) {
  constexpr size_t kFitsSocket = 64 * kKiB;
  if (input.empty()) return;
  const bool is_client = (std::to_integer<unsigned>(input.front()) & 1) != 0;
  const auto said = input.subspan(1).first(std::min(input.size() - 1, kFitsSocket));
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const UniqueFd peer(ends[0]);
  const UniqueFd own(ends[1]);
  CHECK(send(peer.get(), said.data(), said.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(said.size()));
  CHECK(shutdown(peer.get(), SHUT_WR) == 0);
  const Secret secret{SecretBytes("what both ends know of this")};
  const auto session = is_client ? tcp::TlsSession::client(own.get(), secret)
                                 : tcp::TlsSession::server(own.get(), [&](KeyId) { return std::optional(secret); });
  CHECK(session.ok());
  size_t steps = 0;
  while ((*session)->shake_hands().ok()) CHECK(++steps < said.size() + 10);
}

void brick_answers(Input input) {
  Cut cut(input);
  const auto way = cut.number<uint8_t>();
  const Deadline soon = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const Nonces nonces{
      .client = {}, .server = {}, .client_features = wire::kFeatures, .server_features = wire::kFeatures};
  if (way % 4 == 0) {
    Holder holder;
    ScriptedChannel channel(cut.rest(), nonces, wire::kOpenedPurpose);
    static_cast<void>(open_session(channel, nonces, Secret{}, OpenRequest{}, &holder, soon));
  } else if (way % 4 == 1) {
    ScriptedChannel channel(cut.rest(), nonces, wire::kAdministeredPurpose);
    static_cast<void>(administer(channel, nonces, Secret{}, AdminRequest{}, soon));
  } else if (way % 4 == 2) {
    decode_administration(cut);
  } else {
    decode_each_answer(cut.rest(), std::make_index_sequence<std::variant_size_v<calls::Request>>());
  }
}

}  // namespace brickfs::fuzz
