// SPDX-License-Identifier: Apache-2.0
// TLS from a secret alone, between two ends in this process: who gets in, what passes, and what does not.
#include "transport/tcp/tls.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "tests/support/brick_contract.h"
#include "transport/base/unique_fd.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/stream.h"

namespace brickfs::tcp {
namespace {

using testing::pattern;
using Step = TlsSession::Step;

constexpr size_t kRecordHeader = 5;

const Secret kTlsSecret{SecretBytes("what both ends know, 24b")};

std::pair<UniqueFd, UniqueFd> tls_ends() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

TlsSession::FindSecret knows_only(Secret secret) {
  return
      [secret = std::move(secret)](KeyId id) { return id == key_id_of(secret) ? std::optional(secret) : std::nullopt; };
}

// Two ends, and who carries what one says to the other: so much at a time, and changed if that is asked for.
class TlsPair : public ::testing::Test {
 protected:
  void connect(const Secret& client, const Secret& server, uint64_t rekey_bytes = kTlsRekeyBytes) {
    for (End* const way : {&out_, &in_}) {
      *way = End();
      std::tie(way->end, way->carrier) = tls_ends();
    }
    client_ = *TlsSession::client(out_.end.get(), client, rekey_bytes);
    server_ = *TlsSession::server(in_.end.get(), knows_only(server));
  }
  // What each end's handshake comes to.
  std::pair<int, int> shake_hands() {
    std::optional<int> ends[2];
    for (int round = 0; round < 100 && (!ends[0] || !ends[1]); ++round) {
      for (int end = 0; end < 2; ++end) {
        if (ends[end]) continue;
        const auto step = (end == 0 ? client_ : server_)->shake_hands();
        if (!step.ok()) ends[end] = step.code();
        if (step.ok() && *step == Step::kDone) ends[end] = 0;
      }
      carry();
    }
    return {ends[0].value_or(EINPROGRESS), ends[1].value_or(EINPROGRESS)};
  }
  // Both ways.
  void carry() {
    carry_from(out_, in_);
    carry_from(in_, out_);
  }
  // A message of the client, as the server has it then.
  Result<std::vector<std::byte>> say(std::span<const std::byte> bytes) {
    std::vector<std::byte> got(bytes.size());
    size_t sent = 0;
    for (size_t received = 0; received < got.size();) {
      const iovec rest = to_iovec(bytes.subspan(sent));
      if (sent < bytes.size()) sent += TRY(client_->send(std::span(&rest, 1)));
      carry();
      const iovec place = to_iovec(std::span(got).subspan(received, std::min(most_read_, got.size() - received)));
      const auto some = server_->receive(std::span(&place, 1));
      if (some.code() == EAGAIN) continue;
      received += TRY(some);
    }
    return got;
  }

  struct End {
    UniqueFd end;
    UniqueFd carrier;
    std::vector<std::byte> seen;  // of what it said, as it was passed on
    size_t carried = 0;           // of that
  };
  void carry_from(End& from, End& to) {
    std::array<std::byte, 4096> piece;
    ssize_t got = 0;
    while ((got = ::recv(from.carrier.get(), piece.data(), piece.size(), MSG_DONTWAIT)) > 0) {
      const auto bytes = std::span(piece).first(static_cast<size_t>(got));
      if (change_) change_(bytes, from.seen.size(), &from == &out_);
      from.seen.insert(from.seen.end(), bytes.begin(), bytes.end());
    }
    while (from.carried < from.seen.size()) {
      const auto rest = std::span(from.seen).subspan(from.carried);
      const ssize_t sent = ::send(to.carrier.get(), rest.data(), std::min(rest.size(), most_carried_), MSG_DONTWAIT);
      if (sent <= 0) return;
      from.carried += static_cast<size_t>(sent);
    }
  }

  size_t most_carried_ = 1 << 16;
  size_t most_read_ = SIZE_MAX;
  std::function<void(std::span<std::byte> bytes, size_t offset, bool of_client)> change_;
  End out_;
  End in_;
  std::unique_ptr<TlsSession> client_;
  std::unique_ptr<TlsSession> server_;
};

TEST_F(TlsPair, WhoKnowTheSecretUnderstandEachOther) {
  connect(kTlsSecret, kTlsSecret);
  ASSERT_EQ(shake_hands(), std::pair(0, 0));
  const auto said = pattern(3'000'000, 1);
  EXPECT_EQ(say(said).value(), said);
  const auto seen = std::search(out_.seen.begin(), out_.seen.end(), said.begin(), said.begin() + 16);
  EXPECT_EQ(seen, out_.seen.end()) << "it passes as it is";
}

TEST_F(TlsPair, ShortPiecesComeWhole) {
  most_carried_ = 7;
  most_read_ = 3;
  connect(kTlsSecret, kTlsSecret);
  ASSERT_EQ(shake_hands(), std::pair(0, 0));
  const auto said = pattern(50'000, 2);
  EXPECT_EQ(say(said).value(), said);
}

TEST_F(TlsPair, AnotherSecretIsRefusedAtBothEnds) {
  connect(Secret{SecretBytes("what the client guesses.")}, kTlsSecret);
  EXPECT_EQ(shake_hands(), std::pair(EACCES, EACCES));
}

// He has seen by what another is known, and not the secret itself.
TEST_F(TlsPair, WhoNamesAKeyAndDoesNotKnowItIsRefused) {
  connect(Secret{SecretBytes("what the client guesses.")}, kTlsSecret);
  server_ = *TlsSession::server(in_.end.get(), [](KeyId) { return std::optional(kTlsSecret); });
  EXPECT_EQ(shake_hands(), std::pair(EACCES, EACCES));
}

TEST_F(TlsPair, WhatIsChangedOnItsWayIsNotTaken) {
  std::mt19937_64 random(20);
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE(round);
    change_ = nullptr;
    connect(kTlsSecret, kTlsSecret);
    ASSERT_EQ(shake_hands(), std::pair(0, 0));
    const size_t at = out_.seen.size() + random() % 70'000;
    change_ = [&](std::span<std::byte> bytes, size_t offset, bool of_client) {
      if (of_client && at >= offset && at < offset + bytes.size()) bytes[at - offset] ^= std::byte{1};
    };
    const auto got = say(pattern(100'000, 3));
    EXPECT_EQ(got.code(), ENOTCONN);
    std::byte more{};
    const iovec part{&more, 1};
    EXPECT_EQ(server_->receive(std::span(&part, 1)).code(), ENOTCONN) << "and nothing comes behind it";
  }
}

TEST_F(TlsPair, WhatIsNoHandshakeIsNone) {
  std::mt19937_64 random(21);
  for (int round = 0; round < 200; ++round) {
    connect(kTlsSecret, kTlsSecret);
    std::vector<std::byte> bytes(1 + random() % 600);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    if (round % 2 == 0) {  // a record that says so
      bytes.resize(std::max(bytes.size(), kRecordHeader));
      bytes[0] = std::byte{22};
      bytes[1] = bytes[2] = std::byte{3};
      bytes[3] = static_cast<std::byte>((bytes.size() - kRecordHeader) >> 8);
      bytes[4] = static_cast<std::byte>(bytes.size() - kRecordHeader);
    }
    iovec part = to_iovec(bytes);
    ASSERT_TRUE(send_all(in_.carrier.get(), std::span(&part, 1)).ok());
    shut_down(in_.carrier.get());
    const auto step = server_->shake_hands();
    EXPECT_NE(step.code(), 0) << "round " << round;
  }
}

// What a client says first, cut short or with a byte changed: no handshake comes of it, and nothing else.
TEST_F(TlsPair, HalfAHandshakeIsNone) {
  connect(kTlsSecret, kTlsSecret);
  (void)client_->shake_hands();
  carry_from(out_, in_);
  const auto first = out_.seen;
  ASSERT_GT(first.size(), 100u);
  for (size_t changed = 0; changed < first.size(); ++changed) {
    connect(kTlsSecret, kTlsSecret);
    auto bytes = first;
    bytes[changed] ^= std::byte{0x55};
    if (changed % 2 == 0) bytes.resize(changed + 1);
    iovec part = to_iovec(bytes);
    ASSERT_TRUE(send_all(in_.carrier.get(), std::span(&part, 1)).ok());
    shut_down(in_.carrier.get());
    for (int step = 0; step < 3 && server_->shake_hands().ok(); ++step) {
    }
    EXPECT_NE(server_->shake_hands().code(), 0) << "byte " << changed;
  }
}

// So many records of a handshake message of five bytes: a KeyUpdate, RFC 8446, 4.6.3.
size_t key_updates(std::span<const std::byte> seen) {
  constexpr size_t kKeyUpdate = 5 + 1 + 16;
  size_t count = 0;
  while (seen.size() >= kRecordHeader) {
    const size_t length = std::to_integer<size_t>(seen[3]) << 8 | std::to_integer<size_t>(seen[4]);
    count += length == kKeyUpdate ? 1 : 0;
    seen = seen.subspan(std::min(seen.size(), kRecordHeader + length));
  }
  return count;
}

TEST_F(TlsPair, AKeyIsNotUsedForEver) {
  connect(kTlsSecret, kTlsSecret, 100'000);
  ASSERT_EQ(shake_hands(), std::pair(0, 0));
  const auto said = pattern(1'000'000, 4);
  EXPECT_EQ(say(said).value(), said);
  EXPECT_GE(key_updates(out_.seen), 7u);
}

TEST_F(TlsPair, EndsWithTheConnection) {
  connect(kTlsSecret, kTlsSecret);
  ASSERT_EQ(shake_hands(), std::pair(0, 0));
  shut_down(in_.carrier.get());
  std::byte byte{};
  const iovec part{&byte, 1};
  EXPECT_EQ(server_->receive(std::span(&part, 1)).code(), ENOTCONN);
}

// A server that speaks TLS 1.3 perfectly, with a certificate of its own and without the secret.
class CertificateServer {
 public:
  explicit CertificateServer(int fd) {
    SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
    EVP_PKEY* const key = EVP_EC_gen("P-256");
    X509* const certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_sign(certificate, key, EVP_sha256());
    EXPECT_EQ(SSL_CTX_use_certificate(context, certificate), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context, key), 1);
    ssl_ = SSL_new(context);
    SSL_set_fd(ssl_, fd);
    X509_free(certificate);
    EVP_PKEY_free(key);
    SSL_CTX_free(context);
  }
  ~CertificateServer() { SSL_free(ssl_); }
  bool accept() { return SSL_accept(ssl_) == 1; }

 private:
  SSL* ssl_ = nullptr;
};

TEST(Tls, ACertificateIsNoSecret) {
  auto [near, far] = tls_ends();
  const int fd = far.get();
  std::thread impostor([fd] {
    CertificateServer server(fd);
    EXPECT_FALSE(server.accept());
    shut_down(fd);
  });
  Stream stream(std::move(near));
  EXPECT_EQ(stream.encrypt(kTlsSecret, Clock::now() + std::chrono::seconds(60)).code(), EACCES);
  EXPECT_FALSE(stream.is_encrypted());
  stream.shut_down();
  impostor.join();
}

// Each end sends and receives at once, far more than the sockets take, while keys change.
TEST(Tls, BothEndsMaySayALotAtOnce) {
  auto [near, far] = tls_ends();
  for (const int fd : {near.get(), far.get()}) {
    const int room_bytes = 2 * 1024;
    ASSERT_EQ(::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room_bytes, sizeof(room_bytes)), 0);
  }
  Stream streams[] = {Stream(std::move(near)), Stream(std::move(far))};
  std::thread server([&] {
    ASSERT_TRUE(streams[1].begin_to_encrypt(knows_only(kTlsSecret)).ok());
    const Deadline latest = Clock::now() + std::chrono::seconds(60);
    for (auto step = streams[1].go_on_encrypting(); *step != Step::kDone; step = streams[1].go_on_encrypting())
      ASSERT_TRUE(wait_readable(streams[1].fd(), latest).ok());
  });
  ASSERT_TRUE(streams[0].encrypt(kTlsSecret, Clock::now() + std::chrono::seconds(60), 50'000).ok());
  server.join();
  constexpr size_t kBytes = 8 << 20;
  const std::vector<std::byte> said[] = {pattern(kBytes, 5), pattern(kBytes, 6)};
  std::vector<std::byte> heard[] = {std::vector<std::byte>(kBytes), std::vector<std::byte>(kBytes)};
  std::vector<std::thread> threads;
  for (int end = 0; end < 2; ++end) {
    threads.emplace_back([&, end] {
      std::vector<iovec> parts;  // as the data path has them: a header, and what belongs to it
      for (size_t at = 0; at < kBytes; at += 100'000) {
        parts.push_back(to_iovec(std::span(said[end]).subspan(at, std::min<size_t>(40, kBytes - at))));
        if (at + 40 < kBytes)
          parts.push_back(to_iovec(std::span(said[end]).subspan(at + 40, std::min<size_t>(99'960, kBytes - at - 40))));
      }
      EXPECT_TRUE(streams[end].send_all(parts).ok());
    });
    threads.emplace_back([&, end] { EXPECT_TRUE(streams[end].receive_all(heard[end]).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(heard[0], said[1]);
  EXPECT_EQ(heard[1], said[0]);
}

}  // namespace
}  // namespace brickfs::tcp
