// SPDX-License-Identifier: Apache-2.0
// brickd's listeners, from the URLs that it was told to serve at. Only here is a transport chosen.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/peers/listener.h"
#include "server/service/brick_service.h"
#include "transport/base/result.h"
#include "transport/brick/proof.h"
#include "transport/brick/source.h"
#include "transport/brick/tls_mode.h"

namespace brickfs {

// What peers must know one of: clients perhaps the empty one, which is nothing. Without any there are no
// administrators.
struct BrickSecrets {
  std::vector<Secret> clients = {Secret()};
  std::vector<Secret> administrators;
};

class BrickListeners {
 public:
  // Serves at all of them from now on, until it goes. The service outlives it. As TcpListener::open and
  // VerbsListener::open fail, with one line for people in `why`.
  static Result<BrickListeners> open(BrickService& service, std::vector<ListenUrl> urls, const BrickSecrets& secrets,
                                     TlsMode tls, std::string* why);

  // Of connections from now on.
  void use(const BrickSecrets& secrets);
  // As asked for, with the ports that they got.
  const std::vector<ListenUrl>& urls() const { return urls_; }
  // They live as long as this.
  std::vector<const Listener*> all() const;

 private:
  std::vector<ListenUrl> urls_;
  std::vector<std::unique_ptr<Listener>> listeners_;
};

}  // namespace brickfs
