// SPDX-License-Identifier: Apache-2.0
#include "server/brickd_sets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <utility>

#include "transport/base/log.h"
#include "transport/base/unique_fd.h"
#include "transport/etcd/etcd_map_store.h"

namespace brickfs {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kEndsWithin{100};  // unless it waits for etcd

// NAME, NAME.2, NAME.3 ...: what a set calls its volumes (plan_places()).
std::string set_of_volume(const std::string& volume) {
  const size_t dot = volume.rfind('.');
  const bool is_number =
      dot != volume.npos && dot + 1 < volume.size() && volume.find_first_not_of("0123456789", dot + 1) == volume.npos;
  return is_number ? volume.substr(0, dot) : volume;
}

bool is_same_address(const sockaddr_storage& a, const addrinfo& b) {
  if (a.ss_family != b.ai_family) return false;
  if (a.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b.ai_addr)->sin_addr.s_addr;
  }
  const auto& left = reinterpret_cast<const sockaddr_in6&>(a).sin6_addr.s6_addr;
  const auto& right = reinterpret_cast<const sockaddr_in6*>(b.ai_addr)->sin6_addr.s6_addr;
  return std::equal(std::begin(left), std::end(left), std::begin(right));
}

// What goes to an address of this host leaves from that address. Nothing is sent.
bool leads_here(const addrinfo& address) {
  const UniqueFd socket(::socket(address.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage from{};
  socklen_t length = sizeof(from);
  return socket.valid() && ::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0 &&
         ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&from), &length) == 0 &&
         is_same_address(from, address);
}

bool is_this_host(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (leads_here(*one)) return true;
  }
  return false;
}

int64_t unix_seconds_now() {
  using std::chrono::seconds;
  return std::chrono::duration_cast<seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

BrickSets::BrickSets(const BrickService& service, std::vector<ListenUrl> listens, std::unique_ptr<EtcdClient> etcd)
    : service_(service), listens_(std::move(listens)), etcd_(std::move(etcd)) {}

BrickSets::~BrickSets() {
  static_cast<void>(end());
  thread_.join();
}

bool BrickSets::end() {
  const auto deadline = steady_clock::now() + kEndsWithin;
  MutexLock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  while (!ended_ && steady_clock::now() < deadline) changed_.wait_until(lock, deadline);
  return ended_;
}

BrickSets::View BrickSets::look() {
  MutexLock lock(mutex_);
  somebody_looks_ = true;
  changed_.notify_all();
  return view_;
}

void BrickSets::run() {
  MutexLock lock(mutex_);
  auto next = steady_clock::now();
  for (;;) {
    while (!stopping_ && !somebody_looks_) changed_.wait(lock);
    while (!stopping_ && steady_clock::now() < next) changed_.wait_until(lock, next);
    if (stopping_) break;
    somebody_looks_ = false;
    lock.unlock();
    std::string why;
    auto sets = ask(&why);
    lock.lock();
    next = steady_clock::now() + kApart;
    if (!why.empty() && view_.trouble.empty()) log::warn("sets cannot be shown on the page: {}", why);
    if (why.empty() && !view_.trouble.empty()) log::info("sets are shown on the page again");
    view_.trouble = why;
    if (!sets.ok()) continue;
    view_.unix_seconds = unix_seconds_now();
    view_.sets = std::move(*sets);
  }
  ended_ = true;
  changed_.notify_all();
}

// A name may be another brick's, which has a volume of that name, too.
std::set<MemberId> BrickSets::replicas_here(const SetMap& map, const std::set<std::string>& volumes) const {
  const auto is_own = [this](const HostPort& address) {
    return std::ranges::count(listens_, address.port, &ListenUrl::port) > 0 && is_this_host(address.host);
  };
  std::set<MemberId> here;
  for (const MapPlace& place : map.places) {
    for (const MapReplica& replica : place.replicas) {
      const auto source = parse_source(replica.source, nullptr);
      if (!source.ok() || !volumes.contains(source->volume)) continue;
      if (replica.boot == service_.boot() || std::ranges::any_of(source->addresses, is_own)) here.insert(replica.id);
    }
  }
  return here;
}

Result<std::vector<SetOnBrick>> BrickSets::ask(std::string* why) {
  std::set<std::string> volumes;
  std::set<std::string> candidates;
  for (const VolumeStatus& volume : service_.numbers().volumes) {
    volumes.insert(volume.name);
    candidates.insert({volume.name, set_of_volume(volume.name)});
  }
  std::vector<SetOnBrick> sets;
  std::string unusable;
  for (const auto& [key, id] : TRY(etcd_->list(std::string(kSetNames), why))) {
    const std::string name = key.substr(kSetNames.size());
    if (!candidates.contains(name)) continue;
    auto stored = load_map(*etcd_, name, id, why);
    if (stored.code() == EUCLEAN || stored.code() == EPROTO) {  // this one; the others may be well
      unusable = *why;
      continue;
    }
    if (!stored.ok()) return stored.error();
    auto here = replicas_here(stored->map, volumes);
    if (!here.empty()) sets.push_back({name, std::move(stored->map), std::move(here)});
  }
  *why = unusable;
  return sets;
}

Result<std::vector<HostPort>> parse_etcd_endpoints(std::string_view text, std::string* why) {
  if (text.find('/') != text.npos) {
    *why = "HOST[:PORT][,HOST[:PORT]]... of one etcd";
    return Error(EINVAL, "endpoints of etcd");
  }
  return TRY(parse_source("etcd://" + std::string(text), why)).addresses;
}

}  // namespace brickfs
