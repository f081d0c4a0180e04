// SPDX-License-Identifier: Apache-2.0
// The kernel's end of /dev/fuse: a pair of sockets, over which requests and answers go as datagrams.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "transport/base/bytes.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class FakeKernel {
 public:
  struct Answer {
    fuse_out_header header{};
    std::vector<std::byte> payload;
  };

  FakeKernel() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    kernel_ = UniqueFd(ends[0]);
    device_ = UniqueFd(ends[1]);
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  }

  int device() const { return device_.get(); }
  // Who asks from now on.
  void ask_as(uint32_t uid, uint32_t thread) {
    uid_ = uid;
    thread_ = thread;
  }
  void send(std::span<const std::byte> message) {
    EXPECT_EQ(::write(kernel_.get(), message.data(), message.size()), static_cast<ssize_t>(message.size()));
  }
  // Its number.
  uint64_t request(uint32_t opcode, uint64_t node, std::span<const std::byte> body) {
    fuse_in_header header{};
    header.len = static_cast<uint32_t>(sizeof(header) + body.size());
    header.opcode = opcode;
    header.unique = last_ += 2;
    header.nodeid = node;
    header.uid = uid_;
    header.pid = thread_;
    std::vector<std::byte> message(header.len);
    std::memcpy(message.data(), &header, sizeof(header));
    if (!body.empty()) std::memcpy(message.data() + sizeof(header), body.data(), body.size());
    send(message);
    return header.unique;
  }
  template <typename In>
  uint64_t request_with(uint32_t opcode, uint64_t node, const In& in, std::string_view rest = {}) {
    std::vector<std::byte> body(sizeof(in) + rest.size());
    std::memcpy(body.data(), &in, sizeof(in));
    std::memcpy(body.data() + sizeof(in), rest.data(), rest.size());
    return request(opcode, node, body);
  }
  uint64_t request_name(uint32_t opcode, uint64_t node, std::string_view name) {
    std::vector<std::byte> body(name.size() + 1);
    std::memcpy(body.data(), name.data(), name.size());
    return request(opcode, node, body);
  }
  // By O_DIRECT.
  uint64_t request_read(uint64_t node, uint64_t offset, uint32_t bytes) {
    fuse_read_in in{};
    in.offset = offset;
    in.size = bytes;
    in.read_flags = FUSE_READ_LOCKOWNER;
    return request(FUSE_READ, node, bytes_of(in));
  }
  uint64_t request_write(uint64_t node, uint64_t offset, std::span<const std::byte> data,
                         uint32_t flags = FUSE_WRITE_LOCKOWNER) {
    fuse_write_in in{};
    in.offset = offset;
    in.size = static_cast<uint32_t>(data.size());
    in.write_flags = flags;
    std::vector<std::byte> body(sizeof(in) + data.size());
    std::memcpy(body.data(), &in, sizeof(in));
    std::memcpy(body.data() + sizeof(in), data.data(), data.size());
    return request(FUSE_WRITE, node, body);
  }
  // The connection has ended.
  void hang_up() { kernel_ = UniqueFd(); }
  // The next that has come, an answer or a notice; none within a while.
  std::optional<Answer> answer(int patience_ms = 5'000) {
    pollfd one{kernel_.get(), POLLIN, 0};
    if (::poll(&one, 1, patience_ms) != 1) return std::nullopt;
    static thread_local std::vector<std::byte> room(1 << 20);  // once: sanitizers look at each byte of it
    const ssize_t got = ::read(kernel_.get(), room.data(), room.size());
    if (got < static_cast<ssize_t>(sizeof(fuse_out_header))) return std::nullopt;
    const auto message = std::span(room).first(static_cast<size_t>(got));
    Answer answer{load<fuse_out_header>(message), {}};
    EXPECT_EQ(answer.header.len, message.size());
    answer.payload.assign(message.begin() + sizeof(fuse_out_header), message.end());
    return answer;
  }

 private:
  UniqueFd kernel_;
  UniqueFd device_;
  uint64_t last_ = 0;
  uint32_t uid_ = 0;
  uint32_t thread_ = 0;
};

}  // namespace brickfs
