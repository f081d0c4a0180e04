// SPDX-License-Identifier: Apache-2.0
// The client against what is no etcd, or one in trouble. Against etcd itself: tests/etcd.
#include "transport/etcd/etcd_client.h"

#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/reserved_port.h"
#include "transport/base/unique_fd.h"
#include "transport/etcd/bounded_json.h"
#include "transport/etcd/etcd_map_store.h"
#include "transport/etcd/http_exchange.h"

namespace brickfs {
namespace {

using std::chrono::steady_clock;

// An HTTP server that answers each call with what a test says.
class Gateway {
 public:
  using Answer = std::function<void(const httplib::Request&, httplib::Response&)>;
  explicit Gateway(Answer answer) {
    server_.Post("/v3/.*", [this, answer = std::move(answer)](const httplib::Request& request, httplib::Response& to) {
      ++calls_;
      answer(request, to);
    });
    port_ = static_cast<uint16_t>(server_.bind_to_any_port("127.0.0.1"));
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~Gateway() {
    server_.stop();
    thread_.join();
  }
  HostPort address() const { return {"127.0.0.1", port_}; }
  int calls() const { return calls_; }

 private:
  httplib::Server server_;
  uint16_t port_ = 0;
  std::atomic<int> calls_{0};
  std::thread thread_;
};

Gateway::Answer say(int status, std::string body) {
  return [status, body = std::move(body)](const httplib::Request&, httplib::Response& to) {
    to.status = status;
    to.set_content(body, "application/json");
  };
}

constexpr const char* kEmpty = R"({"header":{"revision":"5"}})";
constexpr const char* kDone = R"({"header":{"revision":"5"},"succeeded":true,"responses":[]})";
// "value" of "key".
constexpr const char* kValue =
    R"({"header":{"revision":"5"},"kvs":[)"
    R"({"key":"a2V5","create_revision":"2","mod_revision":"3","value":"dmFsdWU="}],"count":"1"})";
constexpr const char* kNoLeader = R"({"error":"etcdserver: no leader","message":"etcdserver: no leader","code":14})";

std::unique_ptr<EtcdClient> client_of(std::vector<HostPort> endpoints, EtcdOptions options = {}) {
  std::string why;
  auto client = EtcdClient::open(std::move(endpoints), std::move(options), &why);
  EXPECT_TRUE(client.ok()) << why;
  return std::move(*client);
}

// Of the one endpoint.
int get_code(const Gateway& gateway, std::string* why) {
  return client_of({gateway.address()})->get("key", why).code();
}
int put_code(const Gateway& gateway, std::string* why) {
  return client_of({gateway.address()})->put_if({{"key", 0}}, {{"key", "value"}}, why).code();
}

// A port on which nobody listens.
HostPort nobody() {
  static const testing::ReservedPort port;
  return {"127.0.0.1", port.number()};
}

TEST(EtcdClient, ReadsValues) {
  std::string why;
  const Gateway gateway(say(200, kValue));
  const auto value = client_of({gateway.address()})->get("key", &why);
  ASSERT_TRUE(value.ok()) << why;
  EXPECT_EQ(value->value, "value");
  EXPECT_EQ(value->mod_revision, 3u);
  EXPECT_EQ(get_code(Gateway(say(200, kEmpty)), &why), ENOENT);
}

TEST(EtcdClient, SendsComparisonsAndPuts) {
  nlohmann::json sent;
  const Gateway gateway([&sent](const httplib::Request& request, httplib::Response& to) {
    EXPECT_EQ(request.path, "/v3/kv/txn");
    sent = nlohmann::json::parse(request.body);
    to.set_content(kDone, "application/json");
  });
  std::string why;
  const auto done = client_of({gateway.address()})->put_if({{"a", 0}, {"b", 7}}, {{"c", "dd"}}, &why);
  ASSERT_TRUE(done.ok()) << why;
  EXPECT_EQ(*done, 5u);
  EXPECT_EQ(sent, nlohmann::json::parse(R"({"compare":[
      {"key":"YQ==","result":"EQUAL","target":"CREATE","create_revision":"0"},
      {"key":"Yg==","result":"EQUAL","target":"MOD","mod_revision":"7"}],
    "success":[{"request_put":{"key":"Yw==","value":"ZGQ="}}]})"));
  EXPECT_EQ(put_code(Gateway(say(200, kEmpty)), &why), EAGAIN);
}

TEST(EtcdClient, WhatIsNoEtcdIsNamed) {
  for (const auto& [status, body] : std::vector<std::pair<int, std::string>>{{200, "<html>hello</html>"},
                                                                             {200, "[]"},
                                                                             {200, "{}"},
                                                                             {200, R"({"header":1})"},
                                                                             {404, "not found"},
                                                                             {302, ""}}) {
    const Gateway gateway(say(status, body));
    std::string why;
    EXPECT_EQ(get_code(gateway, &why), EPROTO) << status << body;
    EXPECT_TRUE(why.starts_with("etcd at " + format_address(gateway.address()) + ": what answers there is not etcd"))
        << why;
  }
  std::string why;
  for (const char* odd :
       {R"({"header":{},"kvs":1})", R"({"header":{},"kvs":[1]})",
        R"({"header":{},"kvs":[{"value":"!","mod_revision":"1"}]})", R"({"header":{},"kvs":[{"mod_revision":"x"}]})",
        R"({"header":{},"kvs":[{"mod_revision":"-1"}]})", R"({"header":{},"kvs":[{"value":"AA=="}]})"}) {
    EXPECT_EQ(get_code(Gateway(say(200, odd)), &why), EPROTO) << odd;
  }
}

TEST(EtcdClient, AHugeAnswerIsNotTaken) {
  std::string why;
  EXPECT_EQ(get_code(Gateway(say(200, std::string(20'000'000, ' '))), &why), ETIMEDOUT);
}

TEST(EtcdClient, RefusalsAreTold) {
  const auto error = [](int code, const std::string& message) {
    return nlohmann::json{{"error", message}, {"message", message}, {"code", code}}.dump();
  };
  std::string why;
  EXPECT_EQ(get_code(Gateway(say(400, error(3, "etcdserver: user name is empty"))), &why), EACCES);
  EXPECT_TRUE(why.ends_with("asks for a user and a password")) << why;
  EXPECT_EQ(put_code(Gateway(say(403, error(7, "etcdserver: permission denied"))), &why), EACCES);
  EXPECT_TRUE(why.ends_with("(permission denied)")) << why;
  EXPECT_EQ(put_code(Gateway(say(400, error(3, "etcdserver: request is too large"))), &why), EPROTO);
  EXPECT_TRUE(why.ends_with("request is too large")) << why;
  // Of what passes when there is room again, or less to do.
  EXPECT_EQ(put_code(Gateway(say(429, error(8, "etcdserver: mvcc: database space exceeded"))), &why), ETIMEDOUT);
  EXPECT_TRUE(why.ends_with("its database is full: compact and defragment it, then `etcdctl alarm disarm`")) << why;
  EXPECT_EQ(put_code(Gateway(say(429, error(8, "etcdserver: too many requests"))), &why), ETIMEDOUT);
  EXPECT_TRUE(why.ends_with("too many requests")) << why;
  // One that tells of what is not allowed is not asked elsewhere.
  const Gateway refusing(say(403, error(7, "etcdserver: permission denied")));
  const Gateway other(say(200, kValue));
  EXPECT_EQ(client_of({refusing.address(), other.address()})->get("key", &why).code(), EACCES);
  EXPECT_EQ(other.calls(), 0);
}

TEST(EtcdClient, ReadsGoOnToTheNextEndpointAndStayThere) {
  const Gateway without_leader(say(503, kNoLeader));
  const Gateway good(say(200, kValue));
  const auto client = client_of({nobody(), without_leader.address(), good.address()});
  std::string why;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(client->get("key", &why).ok()) << why;
  EXPECT_EQ(without_leader.calls(), 1);
  EXPECT_EQ(good.calls(), 3);
}

TEST(EtcdClient, ATransactionGoesOnOnlyIfNobodyHeardIt) {
  const Gateway good(say(200, kDone));
  std::string why;
  EXPECT_TRUE(client_of({nobody(), good.address()})->put_if({}, {{"key", "value"}}, &why).ok()) << why;
  EXPECT_EQ(good.calls(), 1);
  // What may have been done is not done again.
  for (const auto& [status, body] : std::vector<std::pair<int, std::string>>{
           {503, kNoLeader}, {502, "bad gateway"}, {200, "nonsense"}, {200, R"({"header":{},"succeeded":true})"}}) {
    const Gateway odd(say(status, body));
    EXPECT_EQ(client_of({odd.address(), good.address()})->put_if({}, {{"key", "value"}}, &why).code(), ETIMEDOUT)
        << body;
    EXPECT_EQ(odd.calls(), 1);
    EXPECT_FALSE(why.empty());
  }
  EXPECT_EQ(good.calls(), 1);
}

TEST(EtcdClient, NobodyThereIsToldOfEachEndpoint) {
  const std::vector<HostPort> endpoints = {nobody(), nobody()};
  std::string why;
  EXPECT_EQ(client_of(endpoints)->get("key", &why).code(), EHOSTUNREACH);
  for (const HostPort& endpoint : endpoints) EXPECT_NE(why.find(format_address(endpoint)), why.npos) << why;
  EXPECT_EQ(client_of(endpoints)->put_if({}, {}, &why).code(), EHOSTUNREACH);
}

TEST(EtcdClient, SilenceEndsWithinSeconds) {
  const Gateway silent([](const httplib::Request&, httplib::Response&) {
    std::this_thread::sleep_for(kEtcdRequestTimeout + std::chrono::milliseconds(500));
  });
  std::string why;
  auto began = steady_clock::now();
  EXPECT_EQ(get_code(silent, &why), ETIMEDOUT);
  EXPECT_TRUE(why.ends_with("no answer in time")) << why;
  EXPECT_LT(steady_clock::now() - began, kEtcdRequestTimeout + std::chrono::seconds(60));
}

// Who listens and says nothing, or goes.
class SilentListener {
 public:
  SilentListener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(fd_.get(), 8), 0);
    ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
  }
  HostPort address() const { return {"127.0.0.1", port_}; }
  UniqueFd accept() const { return UniqueFd(::accept(fd_.get(), nullptr, nullptr)); }

 private:
  UniqueFd fd_;
  uint16_t port_ = 0;
};

// Each gets its share of the time, and is not asked first again.
TEST(EtcdClient, SilentEndpointsDoNotKeepAReadFromTheOthers) {
  const SilentListener silent[2];
  const Gateway good(say(200, kValue));
  const auto client = client_of({silent[0].address(), silent[1].address(), good.address()});
  std::string why;
  const auto began = steady_clock::now();
  EXPECT_TRUE(client->get("key", &why).ok()) << why;
  EXPECT_LT(steady_clock::now() - began, kEtcdCallTimeout);
  EXPECT_TRUE(
      testing::takes_less_than(std::chrono::seconds(1), [&] { EXPECT_TRUE(client->get("key", &why).ok()) << why; }));
}

TEST(EtcdClient, AConnectionThatIsClosedMayHaveDoneIt) {
  const SilentListener listener;
  std::thread peer([&listener] { listener.accept(); });
  std::string why;
  EXPECT_EQ(client_of({listener.address(), nobody()})->put_if({}, {}, &why).code(), ETIMEDOUT);
  peer.join();
  EXPECT_TRUE(why.ends_with("closed without an answer")) << why;
}

// Answers one call with `begin` and then with `again` for ever, with pauses or without.
class Endless {
 public:
  Endless(std::string begin, std::string again, std::chrono::milliseconds pause = {})
      : thread_([this, begin = std::move(begin), again = std::move(again), pause] {
          const UniqueFd peer = listener_.accept();
          std::array<char, 4096> request;
          if (::recv(peer.get(), request.data(), request.size(), 0) <= 0) return;
          for (const std::string* text = &begin;; text = &again) {
            const ssize_t sent = ::send(peer.get(), text->data(), text->size(), MSG_NOSIGNAL);
            if (sent < 0) return;
            sent_bytes_ += static_cast<size_t>(sent);
            std::this_thread::sleep_for(pause);
          }
        }) {}
  HostPort address() const { return listener_.address(); }
  size_t sent_bytes() {  // until the client had enough
    thread_.join();
    return sent_bytes_;
  }

 private:
  SilentListener listener_;
  size_t sent_bytes_ = 0;
  std::thread thread_;
};

std::string repeat(std::string_view text, size_t bytes) {
  std::string all;
  while (all.size() < bytes) all += text;
  return all;
}

// Whatever of HTTP it is that has no end.
TEST(EtcdClient, AnAnswerWithoutAnEndIsGivenUp) {
  constexpr size_t kPiece = 65536;
  constexpr size_t kSocketBuffers = 16 * kMiB;  // of both sides, at most
  const std::string chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const auto& [begin, again] : std::vector<std::pair<std::string, std::string>>{
           {"HTTP/1.1 200 OK\r\n", repeat("X: y\r\n", kPiece)},
           {"HTTP/1.1 200 OK\r\nX: ", repeat("y", kPiece)},
           {"HTTP/1.1 200 ", repeat("O", kPiece)},
           {"HTTP/1.1 100 Continue\r\n\r\n", repeat("HTTP/1.1 100 Continue\r\n\r\n", kPiece)},
           {"HTTP/1.1 103 Early Hints\r\n\r\n", repeat("HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n", kPiece)},
           {chunked + "1;", repeat("x", kPiece)},
           {chunked + "1;x\r\n \r\n", repeat("1;x\r\n \r\n", kPiece)},
           {chunked + "0\r\n", repeat("X: y\r\n", kPiece)},
           {"HTTP/1.1 200 OK\r\n\r\n", repeat(" ", kPiece)},
           {"x", repeat("x", kPiece)}}) {
    Endless endless(begin, again);
    std::string why;
    const auto began = steady_clock::now();
    EXPECT_EQ(client_of({endless.address()})->put_if({}, {}, &why).code(), ETIMEDOUT) << begin;
    EXPECT_LT(steady_clock::now() - began, kEtcdRequestTimeout + std::chrono::seconds(60)) << begin;
    EXPECT_LT(endless.sent_bytes(), kExchangeBytes + kSocketBuffers) << begin;
  }
}

TEST(EtcdClient, AnAnswerInDropsEndsWithinSeconds) {
  const std::string chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const auto& [begin, again] : std::vector<std::pair<std::string, std::string>>{
           {"HTTP/1.1 200 OK\r\n", "X: y\r\n"}, {"", "HTTP/1.1 100 Continue\r\n\r\n"}, {chunked + "1;", "x"}}) {
    Endless endless(begin, again, std::chrono::milliseconds(100));
    std::string why;
    const auto began = steady_clock::now();
    EXPECT_EQ(client_of({endless.address()})->put_if({}, {}, &why).code(), ETIMEDOUT) << begin;
    EXPECT_TRUE(why.ends_with("no answer in time")) << why;
    EXPECT_LT(steady_clock::now() - began, kEtcdRequestTimeout + std::chrono::seconds(60)) << begin;
    endless.sent_bytes();
  }
}

TEST(EtcdClient, JsonThatTakesMuchMemoryIsNotTaken) {
  const auto repeated = [](const std::string& text, size_t times) { return repeat(text, times * text.size()); };
  const std::vector<std::string> hostile = {
      R"({"header":{},"x":)" + repeated("[", kJsonDepth) + repeated("]", kJsonDepth) + "}",
      R"({"header":{},"x":)" + repeated("[", 3'000'000),
      R"({"header":{},"x":[)" + repeated("[],", kJsonValues) + "1]}"};
  for (const std::string& text : hostile) {
    std::string why;
    EXPECT_FALSE(is_bounded_json(text));
    EXPECT_EQ(get_code(Gateway(say(200, text)), &why), EPROTO);
  }
  EXPECT_FALSE(is_bounded_json("[1"));
  EXPECT_TRUE(is_bounded_json(repeated("[", kJsonDepth) + repeated("]", kJsonDepth)));
  EXPECT_TRUE(is_bounded_json("[" + repeated("1,", kJsonValues - 2) + "1]"));
}

class EtcdUsers : public ::testing::Test {
 protected:
  EtcdUsers() {
    std::string pattern = ::testing::TempDir() + "etcd_client.XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    options_.user = "somebody";
    options_.password_path = directory_ / "password";
    std::ofstream(options_.password_path) << "open \\ \"sesame\"\t\xc3\xbc\n";
    ::chmod(options_.password_path.c_str(), 0600);
  }
  ~EtcdUsers() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path directory_;
  EtcdOptions options_;
};

TEST_F(EtcdUsers, ATokenIsRenewedWhenItIsVoid) {
  std::atomic<int> tokens{0};
  const Gateway gateway([&tokens](const httplib::Request& request, httplib::Response& to) {
    if (request.path == "/v3/auth/authenticate") {
      EXPECT_EQ(nlohmann::json::parse(request.body),
                (nlohmann::json{{"name", "somebody"}, {"password", "open \\ \"sesame\"\t\xc3\xbc"}}));
      to.set_content(R"({"header":{},"token":"t)" + std::to_string(++tokens) + "\"}", "application/json");
    } else if (request.get_header_value("Authorization") == "t" + std::to_string(tokens)) {
      to.set_content(request.path == "/v3/kv/txn" ? kDone : kValue, "application/json");
    } else {
      to.status = 401;
      to.set_content(R"({"error":"etcdserver: invalid auth token","code":16})", "application/json");
    }
  });
  const auto client = client_of({gateway.address()}, options_);
  std::string why;
  EXPECT_TRUE(client->get("key", &why).ok()) << why;
  EXPECT_TRUE(client->get("key", &why).ok()) << why;
  EXPECT_EQ(tokens, 1);
  tokens = 7;  // those given out are void
  EXPECT_TRUE(client->put_if({}, {}, &why).ok()) << why;
  EXPECT_EQ(tokens, 8);
}

TEST_F(EtcdUsers, AVoidTokenIsRenewedOnceOnly) {
  const Gateway gateway([](const httplib::Request& request, httplib::Response& to) {
    const bool asks = request.path == "/v3/auth/authenticate";
    to.status = asks ? 200 : 401;
    to.set_content(asks ? R"({"header":{},"token":"t"})" : R"({"error":"etcdserver: invalid auth token","code":16})",
                   "application/json");
  });
  const auto client = client_of({gateway.address()}, options_);
  std::string why;
  EXPECT_EQ(client->get("key", &why).code(), EACCES);
  EXPECT_TRUE(why.ends_with("invalid auth token")) << why;
  EXPECT_EQ(gateway.calls(), 2);
}

// A token is asked for elsewhere, also for a transaction.
TEST_F(EtcdUsers, SilentEndpointsDoNotKeepATransactionFromTheOthers) {
  const SilentListener silent[2];
  const Gateway good([](const httplib::Request& request, httplib::Response& to) {
    to.set_content(request.path == "/v3/auth/authenticate" ? R"({"header":{},"token":"t"})" : kDone,
                   "application/json");
  });
  const auto client = client_of({silent[0].address(), silent[1].address(), good.address()}, options_);
  std::string why;
  EXPECT_TRUE(client->put_if({}, {}, &why).ok()) << why;
}

TEST_F(EtcdUsers, OptionsThatDoNotGoTogetherAreRefused) {
  const auto why_not = [](EtcdOptions options) {
    std::string why;
    EXPECT_FALSE(EtcdClient::open({{"127.0.0.1", 1}}, std::move(options), &why).ok());
    return why;
  };
  const std::string file = options_.password_path;
  EXPECT_EQ(why_not({"", "", "", "a", ""}), "a user and a password file go together");
  EXPECT_EQ(why_not({"", file, "", "", ""}), "a client's certificate and its key go together");
  EXPECT_EQ(why_not({"", file, file, "", ""}), "a client's certificate is for TLS: name the file of etcd's CA, too");
  EXPECT_EQ(why_not({"/nonexistent", "", "", "", ""}), "cannot read /nonexistent: No such file or directory");
  EXPECT_EQ(why_not({file, "", "", "", ""}), file + " has no certificates");
  ::chmod(file.c_str(), 0644);
  EXPECT_NE(why_not(options_), "");
}

TEST(EtcdMapStore, WhatIsNoMapIsTold) {
  std::string why;
  const Gateway gateway(say(200, kValue));
  Source source;
  source.kind = SourceKind::kEtcd;
  source.addresses = {gateway.address()};
  source.volume = "home";
  const auto store = EtcdMapStore::open(source, {}, &why);
  ASSERT_TRUE(store.ok()) << why;
  EXPECT_EQ((*store)->load().code(), EUCLEAN);
  EXPECT_EQ((*store)->trouble(), "what etcd has in /brickfs/names/home is no id of a set");
}

}  // namespace
}  // namespace brickfs
