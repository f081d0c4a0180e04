// SPDX-License-Identifier: Apache-2.0
// The control calls of a brick: what is asked and what is answered, as one variant type each, with their checks and
// their bytes (docs/protocol.md, "Calls"). What stands between a caller and a brick forwards one method,
// Callee::call(), and knows only the calls that it means. A new call is a struct here, its bytes in calls.cc, and what
// a session does about it (server/service/server_session.cc).
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "transport/base/result.h"
#include "transport/brick/block.h"
#include "transport/brick/limits.h"

namespace brickfs {

enum class Access : uint32_t { kRead = 1, kReadWrite = 3 };
enum class Durability : uint32_t {
  kVolatile = 1,  // survives any client's crash, not the brick's
  kDurable = 2,   // survives the brick's crash and restart too, from commit on
};
enum class ClientId : uint64_t {};  // random, one for each Brick's user (a mount), not zero
enum class Epoch : uint64_t {};     // of a volume's lease: grows with each exclusive or first read-only grant; 0: none
enum class BootId : uint64_t {};    // of a brick: new when it may have forgotten

// Who holds the volume, told with EBUSY.
struct Holder {
  std::string name;
  int64_t since_unix_seconds = 0;
  ClientId client{};
  // Not 0: he held it, with writes that he may not have committed, when a durable brick stopped; now he is away, and
  // others (but with `steal`) are refused for so long. He himself gets in.
  std::chrono::milliseconds kept_for{0};
};

// Remote memory: one or more neighbouring blocks of the volume. Dies with unmap, lease loss and disconnect; the
// hardware (or the listener) then refuses it. Opaque but for `blocks` and `access`.
struct Handle {
  BlockRange blocks;
  Access access = Access::kRead;
  uint64_t remote_address = 0;  // of the first byte
  uint32_t remote_key = 0;
  // Which session of its Brick it is of, where that has several paths to the brick
  // (transport/paths/redirected_brick.h); 0 elsewhere.
  uint32_t session = 0;
};

// A part of a volume named in a commit: bytes, of one or more neighbouring blocks, all allocated (ENOENT).
struct CommitRange {
  uint64_t address = 0;  // volume address of the first byte
  uint64_t length_bytes = 0;
  // Durable only after every range named before it in the same call is.
  bool after_previous = false;
};

struct ListPage {
  std::vector<BlockRange> extents;     // ascending, maximal runs within the page
  std::optional<BlockAddress> cursor;  // where the next page begins; none: this was the last
};

struct BrickStat {
  BootId boot{};
  Durability durability = Durability::kVolatile;
  uint64_t volume_capacity_blocks = 0;  // of the volume
  uint64_t volume_used_blocks = 0;      // allocated
  uint64_t volume_mapped_blocks = 0;
  uint64_t brick_capacity_blocks = 0;  // of the whole brick
  uint64_t brick_used_blocks = 0;
  uint64_t memory_blocks = 0;       // may be in memory at once
  uint64_t resident_blocks = 0;     // are in memory
  uint64_t allocatable_blocks = 0;  // the volume could allocate now: bounded by quota and by the brick
  uint64_t sessions = 0;
  uint64_t commits = 0;
  uint64_t committed_bytes = 0;
  Epoch epoch{};
  std::optional<Holder> holder;  // whose the lease is
  bool holder_away = false;      // has no session; may come back as long as nobody else opens the volume
  std::string medium;            // "memory", "memory with store /path"
  std::string transport;         // "embedded", "tcp", ... Not told by the brick.
};

namespace calls {

// --- answers: these, ListPage and BrickStat

struct Done {};

using QueuePairKeys = std::array<uint32_t, limits::kQueuePairsPerSession>;  // 0: not to be reached by that queue pair
struct Mapped {
  std::vector<Handle> handles;  // cover the range, ascending, without gaps
  // RDMA only: of each handle. Between the two ends a handle's remote_key is then its id, not 0.
  std::vector<QueuePairKeys> keys;
};

using Ticket = std::array<std::byte, 16>;  // lets one connection in as a queue pair of a session
struct QueuePairOffer {
  uint32_t pair = 0;  // below limits::kQueuePairsPerSession
  Ticket ticket{};
};

struct EndpointOffer {
  uint32_t pair = 0;               // its number among queue pairs
  bool virtual_addresses = false;  // bytes of handles are named by their addresses, else by their offsets
  uint32_t high_keys = 0;          // upper halves of all keys there
  uint32_t flush_key = 0;          // of 8 bytes that may be read
  uint64_t flush_address = 0;
  std::string provider;
  std::vector<std::byte> name;  // as libfabric inserts it, at most limits::kEndpointNameBytes
};

struct KeyRecord {
  uint32_t id = 0;  // of the handle
  uint32_t key = 0;
};
constexpr size_t kKeysPerPage = 8192;
struct KeyPage {
  std::vector<KeyRecord> keys;  // ascending by id; fewer than kKeysPerPage: there are no more
};

// What a volume remembers of a tag. `count` of 0: nothing.
struct Notice {
  uint64_t origin = 0;  // which counting: another when the brick has forgotten the former one; 0: there is none
  uint64_t count = 0;   // notifications so far
  uint64_t value = 0;   // of the last one
};
struct Notices {
  std::vector<Notice> notices;  // of each tag that was asked for, in their order
};

using Answer = std::variant<Done, Mapped, ListPage, BrickStat, QueuePairOffer, KeyPage, Notices, EndpointOffer>;

// --- requests

// Numbers of the protocol.
enum class Kind : uint16_t {
  kOpen = 1,  // these two begin a connection (transport/remote/handshake.h)
  kAttach = 2,
  kAlloc = 3,
  kFree = 4,
  kMap = 5,
  kUnmap = 6,
  kList = 7,
  kCommit = 8,
  kStat = 9,
  kRenew = 10,
  kClose = 11,
  kQueuePair = 12,
  kDetach = 13,
  kKeys = 14,
  kAdminister = 15,  // a connection's only call (transport/brick/administration.h)
  kNotify = 16,
  kWait = 17,
  kEcho = 18,  // of a connection: its two ends exchange it, and no session knows
  kAdmit = 19,
  kExpel = 20,
  kEndpoint = 21,
};

// All of them, by number, as metrics name them.
struct NamedKind {
  Kind kind;
  const char* name;
};
inline constexpr std::array kKinds = {
    NamedKind{Kind::kOpen, "open"},     NamedKind{Kind::kAttach, "attach"}, NamedKind{Kind::kAlloc, "alloc"},
    NamedKind{Kind::kFree, "free"},     NamedKind{Kind::kMap, "map"},       NamedKind{Kind::kUnmap, "unmap"},
    NamedKind{Kind::kList, "list"},     NamedKind{Kind::kCommit, "commit"}, NamedKind{Kind::kStat, "stat"},
    NamedKind{Kind::kRenew, "renew"},   NamedKind{Kind::kClose, "close"},   NamedKind{Kind::kQueuePair, "lane"},
    NamedKind{Kind::kDetach, "detach"}, NamedKind{Kind::kKeys, "keys"},     NamedKind{Kind::kAdminister, "administer"},
    NamedKind{Kind::kNotify, "notify"}, NamedKind{Kind::kWait, "wait"},     NamedKind{Kind::kEcho, "echo"},
    NamedKind{Kind::kAdmit, "admit"},   NamedKind{Kind::kExpel, "expel"},   NamedKind{Kind::kEndpoint, "endpoint"},
};

// Each of the first four works on all of the range or on nothing of it. At most limits::kBlocksPerCall blocks.
// EEXIST (any of them exists), ENOSPC (brick full), EDQUOT (volume's quota). A new block reads as zeros.
struct Alloc {
  static constexpr Kind kKind = Kind::kAlloc;
  using Answer = Done;
  BlockRange blocks;
};
// ENOENT (any of them does not exist), EBUSY (mapped by another). Own mappings of them are unmapped first.
struct Free {
  static constexpr Kind kKind = Kind::kFree;
  using Answer = Done;
  BlockRange blocks;
};
// Handles that cover the range, ascending, each of one or more blocks. Blocks mapped before may be mapped again (with
// other access too); each handle lives by itself until unmap. ENOENT, EACCES, ENOMEM: all of the brick's memory is
// mapped; unmap the coldest blocks and try again.
struct Map {
  static constexpr Kind kKind = Kind::kMap;
  using Answer = Mapped;
  BlockRange blocks;
  Access access = Access::kRead;
};
// Revokes every handle of this session that covers any block of the range. When it returns, no access through them
// lands any more. ENOENT: a block is not allocated. Blocks not mapped are passed over. On a durable brick the bytes
// written through them stay, but are durable only after a commit that names them.
struct Unmap {
  static constexpr Kind kKind = Kind::kUnmap;
  using Answer = Done;
  BlockRange blocks;
};
// Allocated blocks from `cursor` (BlockAddress{0} to begin) on, ascending.
struct List {
  static constexpr Kind kKind = Kind::kList;
  using Answer = ListPage;
  BlockAddress cursor{};
};
// When it returns, the bytes of the ranges as every write completed before the call left them, and every alloc and
// free before it, survive the brick's crash. Costs nothing but a flush on a volatile brick. EIO, ENOSPC: the store
// failed. At most limits::kRangesPerCommit.
struct Commit {
  static constexpr Kind kKind = Kind::kCommit;
  using Answer = Done;
  std::vector<CommitRange> ranges;
};
struct Stat {
  static constexpr Kind kKind = Kind::kStat;
  using Answer = BrickStat;
};

// Notifications (docs/protocol.md, "Notifications"). EOPNOTSUPP: the brick is older than they are. EACCES: an observer.
//
// Tells who waits for the tag on this volume. Transfers of this session that were complete before are seen by transfers
// that begin when the notification has been seen. The volume remembers the last value of each tag and how often there
// was one, until the brick stops; of more than limits::kTagsPerVolume it forgets the one notified longest ago.
struct Notify {
  static constexpr Kind kKind = Kind::kNotify;
  using Answer = Done;
  uint64_t tag = 0;
  uint64_t value = 0;
};
struct Seen {
  uint64_t tag = 0;
  uint64_t origin = 0;  // of the last Notice; zeros: none has been seen
  uint64_t count = 0;
};
// Answered as soon as any of the tags stands otherwise than the caller has `seen` it, or after `patience`. Does not
// hold up other calls. EUSERS, over a network: as many of this session are under way as may be
// (limits::kWaitsPerSession).
struct Wait {
  static constexpr Kind kKind = Kind::kWait;
  using Answer = Notices;
  std::chrono::milliseconds patience{0};  // at most limits::kWaitMost
  std::vector<Seen> seen;                 // 1 to limits::kTagsPerWait
};

// Followers that write (docs/protocol.md, "Followers that write"). Of the exclusive holder (EACCES). EOPNOTSUPP: the
// brick is older than they are.
//
// From now on, as long as the lease lasts and the brick is not started again, sessions of this client may be opened
// that follow the holder and write (OpenRequest::writes). EUSERS: there are as many such clients as may be.
struct Admit {
  static constexpr Kind kKind = Kind::kAdmit;
  using Answer = Done;
  ClientId client{};
};
// When it returns, no session of this client follows the holder any more, nothing that it wrote can land any more, and
// none that writes is let in. Whose client has no such session, and was not admitted: nothing happens.
struct Expel {
  static constexpr Kind kKind = Kind::kExpel;
  using Answer = Done;
  ClientId client{};
};

// --- between the two ends of a session; a Brick's user does not make these
struct Renew {
  static constexpr Kind kKind = Kind::kRenew;
  using Answer = Done;
};
struct Close {
  static constexpr Kind kKind = Kind::kClose;
  using Answer = Done;
};
// RDMA (docs/protocol.md, "RDMA"): a place for one more queue pair. ENOBUFS: there are limits::kQueuePairsPerSession.
struct QueuePair {
  static constexpr Kind kKind = Kind::kQueuePair;
  using Answer = QueuePairOffer;
};
// libfabric (docs/protocol.md, "libfabric"): an endpoint for this session, in the place of a queue pair. ENOBUFS, as
// there. EPROTONOSUPPORT: the brick does not serve by this provider.
struct Endpoint {
  static constexpr Kind kKind = Kind::kEndpoint;
  using Answer = EndpointOffer;
  std::string provider;  // "tcp;ofi_rxm"; empty: the brick's
  std::string host;      // the brick's address that the client has reached, in numbers
  uint16_t port = 0;     // its port there
};
// When it returns, no access through these queue pairs lands any more.
struct Detach {
  static constexpr Kind kKind = Kind::kDetach;
  using Answer = Done;
  uint32_t pairs = 0;  // bit n: queue pair n
};
// Keys on this queue pair of the handles that were mapped before it was there.
struct Keys {
  static constexpr Kind kKind = Kind::kKeys;
  using Answer = KeyPage;
  uint32_t pair = 0;
  uint32_t after = 0;  // ids greater than this; 0 to begin
};

using Request = std::variant<Alloc, Free, Map, Unmap, List, Commit, Stat, Renew, Close, QueuePair, Detach, Keys, Notify,
                             Wait, Admit, Expel, Endpoint>;

Kind kind_of(const Request& request);
// Not of a Brick's user.
bool is_of_session(const Request& request);
// EINVAL: against the rules above, whoever asks whatever brick. Either side looks once.
Status check(const Request& request);
// What an answer with this status, not 0, says. ENOTCONN: the session has ended.
Error explain(int status);

// The bodies. EPROTO: bytes that no honest peer sends.
std::vector<std::byte> encode(const Request& request);
Result<Request> decode_request(Kind kind, std::span<const std::byte> body);
std::vector<std::byte> encode(const Answer& answer);
// Also EPROTO: no answer to this request.
Result<Answer> decode_answer(const Request& request, std::span<const std::byte> body);

// A result of a call as an Answer.
template <typename T>
Result<Answer> to_answer(Result<T> result) {
  if (!result.ok()) return result.error();
  if constexpr (std::is_void_v<T>) {
    return Answer(Done{});
  } else {
    return Answer(*std::move(result));
  }
}

// For std::visit(): an alternative for each kind of call.
template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace calls

// What carries out calls; and a short way to each of them.
class Callee {
 public:
  virtual ~Callee() = default;
  virtual Result<calls::Answer> call(const calls::Request& request) = 0;

  Status alloc(BlockRange blocks) { return status(calls::Alloc{blocks}); }
  Status free(BlockRange blocks) { return status(calls::Free{blocks}); }
  Result<std::vector<Handle>> map(BlockRange blocks, Access access) {
    return TRY(ask(calls::Map{blocks, access})).handles;
  }
  Status unmap(BlockRange blocks) { return status(calls::Unmap{blocks}); }
  Result<ListPage> list(BlockAddress cursor) { return ask(calls::List{cursor}); }
  Status commit(std::span<const CommitRange> ranges) { return status(calls::Commit{{ranges.begin(), ranges.end()}}); }
  Result<BrickStat> stat() { return ask(calls::Stat{}); }
  Status notify(uint64_t tag, uint64_t value) { return status(calls::Notify{tag, value}); }
  Result<std::vector<calls::Notice>> wait_for_notices(std::span<const calls::Seen> seen,
                                                      std::chrono::milliseconds patience) {
    return TRY(ask(calls::Wait{patience, {seen.begin(), seen.end()}})).notices;
  }
  Status admit(ClientId client) { return status(calls::Admit{client}); }
  Status expel(ClientId client) { return status(calls::Expel{client}); }

  template <typename Asked>
  Result<typename Asked::Answer> ask(Asked asked) {
    calls::Answer answer = TRY(call(calls::Request(std::move(asked))));
    auto* const wanted = std::get_if<typename Asked::Answer>(&answer);
    if (wanted == nullptr) return Error(EPROTO, "answer to another call");
    return std::move(*wanted);
  }

 private:
  template <typename Asked>
  Status status(Asked asked) {
    TRY(ask(std::move(asked)));
    return {};
  }
};

}  // namespace brickfs
