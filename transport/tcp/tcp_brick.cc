// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tcp_brick.h"

#include <utility>

#include "transport/remote/remote_brick.h"
#include "transport/tcp/link.h"

namespace brickfs {
namespace {

class TcpBrick final : public RemoteBrick {
 public:
  TcpBrick(std::function<std::vector<HostPort>()> addresses, ClientSecret secret)
      : addresses_(std::move(addresses)), secret_(std::move(secret)) {}
  ~TcpBrick() override { drop_link(); }

 private:
  Result<std::unique_ptr<RemoteLink>> connect(const OpenRequest& request, Holder* holder,
                                              std::function<void(Error)> on_lost) override;

  const std::function<std::vector<HostPort>()> addresses_;
  const ClientSecret secret_;
};

Result<std::unique_ptr<RemoteLink>> TcpBrick::connect(const OpenRequest& request, Holder* holder,
                                                      std::function<void(Error)> on_lost) {
  Error error(EHOSTUNREACH, "no address");
  for (const HostPort& address : addresses_()) {
    auto link = tcp::Link::open(address, secret_, request, holder, on_lost);
    if (link.ok()) return std::unique_ptr<RemoteLink>(*std::move(link));
    error = more_telling(error, link.error());
    if (is_brick_answer(link.error())) break;
  }
  return error;
}

}  // namespace

std::unique_ptr<Brick> make_tcp_brick(const std::string& host, uint16_t port, const ClientSecret& secret) {
  return make_tcp_brick([address = HostPort{host, port}] { return std::vector{address}; }, secret);
}

std::unique_ptr<Brick> make_tcp_brick(std::function<std::vector<HostPort>()> addresses, const ClientSecret& secret) {
  return std::make_unique<TcpBrick>(std::move(addresses), secret);
}

}  // namespace brickfs
