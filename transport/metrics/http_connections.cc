// SPDX-License-Identifier: Apache-2.0
#include "transport/metrics/http_connections.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

namespace brickfs {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kAcceptedAtOnce = 16;  // then those who are there already are looked at
constexpr int kLookMs = 100;            // at deadlines, and whether a connection can be accepted again
constexpr const char* kHeadTooLong =
    "HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

bool is_for_now(int error) { return error == EAGAIN || error == EINTR; }

}  // namespace

class HttpConnection {
 public:
  HttpConnection(UniqueFd fd, Clock::time_point deadline) : fd_(std::move(fd)), deadline_(deadline) {}

  int fd() const { return fd_.get(); }
  short awaited() const { return stage_ == Stage::kAnswer ? POLLOUT : POLLIN; }
  Clock::time_point deadline() const { return deadline_; }
  // Once it is ready for what is awaited. False: it is over.
  bool go_on(const HttpConnections::Answer& answer);
  // What its peer has not taken yet the kernel drops, too.
  void cut_off();

 private:
  enum class Stage { kHead, kAnswer, kRest };

  bool take_head(const HttpConnections::Answer& answer);
  bool send_answer();
  bool take_rest();

  UniqueFd fd_;
  Clock::time_point deadline_;
  Stage stage_ = Stage::kHead;
  std::string head_;
  std::string answer_;
  size_t sent_bytes_ = 0;
  size_t rest_bytes_ = 0;
};

bool HttpConnection::go_on(const HttpConnections::Answer& answer) {
  switch (stage_) {
    case Stage::kHead:
      return take_head(answer);
    case Stage::kAnswer:
      return send_answer();
    case Stage::kRest:
      return take_rest();
  }
  return false;
}

void HttpConnection::cut_off() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  static_cast<void>(::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)));
  fd_.reset();
}

bool HttpConnection::take_head(const HttpConnections::Answer& answer) {
  std::array<char, HttpConnections::kMostHeadBytes> part;
  const ssize_t bytes = ::recv(fd(), part.data(), part.size() - head_.size(), MSG_DONTWAIT);
  if (bytes < 0) return is_for_now(errno);
  if (bytes == 0) return false;
  head_.append(part.data(), static_cast<size_t>(bytes));
  const bool is_whole = head_.find("\r\n\r\n") != head_.npos;
  if (!is_whole && head_.size() < HttpConnections::kMostHeadBytes) return true;
  answer_ = is_whole ? answer(head_.substr(0, head_.find("\r\n"))) : kHeadTooLong;
  stage_ = Stage::kAnswer;
  return true;
}

bool HttpConnection::send_answer() {
  const ssize_t bytes =
      ::send(fd(), answer_.data() + sent_bytes_, answer_.size() - sent_bytes_, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (bytes < 0) return is_for_now(errno);
  sent_bytes_ += static_cast<size_t>(bytes);
  if (sent_bytes_ < answer_.size()) return true;
  stage_ = Stage::kRest;
  return ::shutdown(fd(), SHUT_WR) == 0;
}

// Until the peer closes: by a close before that, with bytes unread, it would lose the answer.
bool HttpConnection::take_rest() {
  std::array<char, 4096> part;
  const ssize_t bytes = ::recv(fd(), part.data(), part.size(), MSG_DONTWAIT);
  if (bytes < 0) return is_for_now(errno);
  rest_bytes_ += static_cast<size_t>(bytes);
  return bytes > 0 && rest_bytes_ < HttpConnections::kMostRestBytes;
}

Result<std::unique_ptr<HttpConnections>> HttpConnections::start(UniqueFd listener, Answer answer) {
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC));
  if (!wake) return errno_error("eventfd");
  // A connection may be gone again before it is accepted, which must not wait for the next.
  if (::fcntl(listener.get(), F_SETFL, O_NONBLOCK) != 0 || ::listen(listener.get(), SOMAXCONN) != 0)
    return errno_error("listening for HTTP");
  return std::unique_ptr<HttpConnections>(new HttpConnections(std::move(listener), std::move(wake), std::move(answer)));
}

HttpConnections::HttpConnections(UniqueFd listener, UniqueFd wake, Answer answer)
    : listener_(std::move(listener)), wake_(std::move(wake)), answer_(std::move(answer)), thread_([this] { run(); }) {}

HttpConnections::~HttpConnections() {
  stopping_ = true;
  static_cast<void>(::eventfd_write(wake_.get(), 1));
  thread_.join();
}

void HttpConnections::run() {
  bool accepts = true;
  std::vector<pollfd> polled;
  while (!stopping_) {
    polled.assign({{wake_.get(), POLLIN, 0}, {accepts ? listener_.get() : -1, POLLIN, 0}});
    for (const HttpConnection& one : all_) polled.push_back({one.fd(), one.awaited(), 0});
    static_cast<void>(::poll(polled.data(), polled.size(), all_.empty() && accepts ? -1 : kLookMs));
    const auto now = Clock::now();
    auto one = all_.begin();
    for (size_t i = 2; i < polled.size() && !stopping_; ++i) {
      bool goes_on = polled[i].revents == 0 || one->go_on(answer_);
      if (goes_on && now >= one->deadline()) {
        one->cut_off();
        goes_on = false;
      }
      one = goes_on ? std::next(one) : all_.erase(one);
    }
    accepts = polled[1].revents == 0 || accept();
  }
}

// False: there is no descriptor, or no memory, for one now.
bool HttpConnections::accept() {
  for (size_t i = 0; i < kAcceptedAtOnce; ++i) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return is_for_now(errno) || errno == ECONNABORTED;
    if (all_.size() == kMost) {
      all_.front().cut_off();
      all_.pop_front();
    }
    all_.emplace_back(std::move(fd), Clock::now() + kMostTime);
  }
  return true;
}

}  // namespace brickfs
