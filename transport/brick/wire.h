// SPDX-License-Identifier: Apache-2.0
// Frames between a client and a brick, byte by byte as docs/protocol.md ("Frames") has them: little-endian, used in
// place, no padding. The same calls serve every remote transport; transfers are frames on tcp only.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/base/bytes.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/limits.h"
#include "transport/brick/proof.h"
#include "transport/brick/volume_key.h"

namespace brickfs::wire {

constexpr uint32_t kMagic = 0x4b43'5242;  // "BRCK"
constexpr uint16_t kVersion = 3;
// Bits for what may be added; both ends use those that both name.
constexpr uint64_t kGrowingAnswers = 1;     // answers may be longer than kLeastBytes
constexpr uint64_t kAdministration = 2;     // ADMINISTER is known
constexpr uint64_t kNotifications = 4;      // NOTIFY, WAIT and sessions that follow are known
constexpr uint64_t kEchoes = 8;             // ECHO is known
constexpr uint64_t kBoundSessions = 16;     // sessions that follow one holder are known
constexpr uint64_t kWritingFollowers = 32;  // sessions that follow and write, ADMIT and EXPEL are known
constexpr uint64_t kVolumeKeys = 64;        // ADMINISTER may be a KeyCall
constexpr uint64_t kTls = 128;              // TLS follows the greeting; of TCP alone, and not in kFeatures
constexpr uint64_t kFeatures =
    kGrowingAnswers | kAdministration | kNotifications | kEchoes | kBoundSessions | kWritingFollowers | kVolumeKeys;

// docs/protocol.md, "Greeting"
struct Hello {
  uint32_t magic = kMagic;
  uint16_t version = kVersion;
  uint16_t reserved = 0;
  uint64_t features = kFeatures;
  Nonce nonce{};
};
static_assert(sizeof(Hello) == 48 && offsetof(Hello, nonce) == 16);

struct Welcome {
  uint32_t magic = kMagic;
  uint16_t version = kVersion;
  uint16_t status = 0;  // errno; the connection ends unless 0
  uint64_t features = kFeatures;
  Nonce nonce{};
};
static_assert(sizeof(Welcome) == 48 && offsetof(Welcome, nonce) == 16);

// docs/protocol.md, "Calls"
using Kind = calls::Kind;
constexpr uint16_t kReplyBit = 0x8000;

struct CallHeader {
  uint32_t length_bytes = 0;  // of the body behind it
  uint16_t kind = 0;          // Kind; with kReplyBit in an answer
  uint16_t status = 0;        // 0 in a call; 0 or an errno in an answer
  uint64_t id = 0;            // of the call, repeated in its answer
};
static_assert(sizeof(CallHeader) == 16 && offsetof(CallHeader, id) == 8);
constexpr size_t kBodyBytes = 256 * kKiB;  // of any body
constexpr uint16_t kHighestErrno = 4095;   // that an answer may carry

struct OpenCall {
  uint64_t client = 0;
  uint64_t resume = 0;
  uint64_t ended = 0;  // client, or 0
  uint32_t mode = 0;
  uint32_t flags = 0;  // kOpenSteal, kOpenBound, kOpenWrites
  char volume[64] = {};
  char client_name[128] = {};
  Proof proof{};
};
static_assert(sizeof(OpenCall) == 256 && offsetof(OpenCall, proof) == 224);
constexpr uint32_t kOpenSteal = 1;
constexpr uint32_t kOpenBound = 2;
constexpr uint32_t kOpenWrites = 4;

using Token = std::array<std::byte, 16>;  // names a session to ATTACH

struct OpenAnswer {  // followed by its proof
  uint64_t epoch = 0;
  uint64_t boot = 0;
  uint64_t capacity_blocks = 0;
  uint64_t memory_blocks = 0;
  uint64_t suspect_blocks = 0;
  uint32_t durability = 0;
  uint16_t tcp_port = 0;  // 0: the brick does not listen on TCP
  uint16_t reserved = 0;
  Token token{};
  uint32_t lease_ms = static_cast<uint32_t>(limits::kLease.count());
  uint32_t reserved2 = 0;
  static constexpr size_t kLeastBytes = 64;
};
static_assert(sizeof(OpenAnswer) == 72 && offsetof(OpenAnswer, lease_ms) == OpenAnswer::kLeastBytes);

// Body of an answer with EBUSY to OPEN.
struct HolderRecord {
  int64_t since_unix_seconds = 0;
  uint64_t client = 0;
  uint32_t kept_for_ms = 0;
  uint32_t reserved = 0;
  char name[128] = {};
  static constexpr size_t kLeastBytes = 152;
};
static_assert(sizeof(HolderRecord) == 152 && offsetof(HolderRecord, name) == 24);

// kKeeper, rdma only: for calls, and the session lives as long as it or the connection that opened it.
enum class Role : uint32_t { kTransfers = 1, kCalls = 2, kKeeper = 3 };

struct AttachCall {
  Token token{};
  uint32_t role = 0;
  uint32_t reserved = 0;
  Proof proof{};
};
static_assert(sizeof(AttachCall) == 56 && offsetof(AttachCall, proof) == 24);

struct RangeRecord {  // ALLOC, FREE, UNMAP; and an extent of a LIST answer
  uint64_t start = 0;
  uint64_t count = 0;
};
static_assert(sizeof(RangeRecord) == 16);

struct MapCall {
  RangeRecord blocks;
  uint32_t access = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(MapCall) == 24);

struct HandleRecord {  // the answer to MAP is an array of these; over RDMA calls::QueuePairKeys for each behind them
  RangeRecord blocks;
  uint64_t remote_address = 0;
  uint32_t remote_key = 0;
  uint32_t access = 0;
};
static_assert(sizeof(HandleRecord) == 32 && offsetof(HandleRecord, remote_key) == 24);

struct ListCall {
  uint64_t cursor = 0;
};
static_assert(sizeof(ListCall) == 8);

struct ListAnswer {  // followed by RangeRecords
  uint64_t cursor = 0;
  uint32_t more = 0;  // 1: the next page begins at cursor
  uint32_t reserved = 0;
};
static_assert(sizeof(ListAnswer) == 16);

struct CommitRecord {  // COMMIT is an array of these
  uint64_t address = 0;
  uint64_t length_bytes = 0;
  uint32_t flags = 0;  // kCommitAfterPrevious
  uint32_t reserved = 0;
};
static_assert(sizeof(CommitRecord) == 24);
constexpr uint32_t kCommitAfterPrevious = 1;

struct StatAnswer {
  uint64_t boot = 0;
  uint64_t epoch = 0;
  uint64_t volume_capacity_blocks = 0;
  uint64_t volume_used_blocks = 0;
  uint64_t volume_mapped_blocks = 0;
  uint64_t brick_capacity_blocks = 0;
  uint64_t brick_used_blocks = 0;
  uint64_t memory_blocks = 0;
  uint64_t resident_blocks = 0;
  uint64_t allocatable_blocks = 0;
  uint64_t sessions = 0;
  uint64_t commits = 0;
  uint64_t committed_bytes = 0;
  uint32_t durability = 0;
  uint32_t held = 0;  // 1, 2: holder says by whom; 2: who is away
  HolderRecord holder;
  char medium[256] = {};
  static constexpr size_t kLeastBytes = 520;
};
static_assert(sizeof(StatAnswer) == 520 && offsetof(StatAnswer, medium) == 264);

static_assert(limits::kBlocksPerCall * (sizeof(HandleRecord) + sizeof(calls::QueuePairKeys)) <= kBodyBytes);
static_assert(sizeof(ListAnswer) + limits::kExtentsPerListPage * sizeof(RangeRecord) <= kBodyBytes);
static_assert(limits::kRangesPerCommit * sizeof(CommitRecord) <= kBodyBytes);

// Of RDMA
struct QueuePairAnswer {
  uint32_t pair = 0;  // below limits::kQueuePairsPerSession
  uint32_t reserved = 0;
  calls::Ticket ticket{};
  static constexpr size_t kLeastBytes = 24;
};
static_assert(sizeof(QueuePairAnswer) == 24);

// Of libfabric
struct EndpointCall {
  char provider[64] = {};
  char host[60] = {};
  uint16_t port = 0;
  uint16_t reserved = 0;
};
static_assert(sizeof(EndpointCall) == 128 && offsetof(EndpointCall, port) == 124);

struct EndpointAnswer {
  uint32_t pair = 0;   // below limits::kQueuePairsPerSession
  uint32_t flags = 0;  // kVirtualAddresses
  uint32_t high_keys = 0;
  uint32_t flush_key = 0;
  uint64_t flush_address = 0;
  uint32_t name_bytes = 0;
  uint32_t reserved = 0;
  char provider[64] = {};
  char name[limits::kEndpointNameBytes] = {};
  static constexpr size_t kLeastBytes = 352;
};
static_assert(sizeof(EndpointAnswer) == 352 && offsetof(EndpointAnswer, name) == 96);
constexpr uint32_t kVirtualAddresses = 1;

struct DetachCall {
  uint32_t pairs = 0;  // bit n: queue pair n
  uint32_t reserved = 0;
};
static_assert(sizeof(DetachCall) == 8);

struct KeysCall {
  uint32_t pair = 0;
  uint32_t after = 0;
};
static_assert(sizeof(KeysCall) == 8);

// docs/protocol.md, "Notifications". WAIT has calls::Seen behind its head; the answer is an array of calls::Notice.
struct NotifyCall {
  uint64_t tag = 0;
  uint64_t value = 0;
};
static_assert(sizeof(NotifyCall) == 16);

struct WaitCall {
  uint32_t patience_ms = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(WaitCall) == 8);
static_assert(sizeof(calls::Seen) == 24 && offsetof(calls::Seen, count) == 16);
static_assert(sizeof(calls::Notice) == 24 && offsetof(calls::Notice, value) == 16);
struct ClientCall {  // ADMIT, EXPEL
  uint64_t client = 0;
};
static_assert(sizeof(ClientCall) == 8);
static_assert(sizeof(calls::KeyRecord) == 8);  // the answer to KEYS is an array of these
static_assert(calls::kKeysPerPage * sizeof(calls::KeyRecord) <= kBodyBytes);

// docs/protocol.md, "Echo"
constexpr size_t kEchoBytes = 64 * kKiB;  // fill packets, whatever a path takes
static_assert(kEchoBytes <= kBodyBytes);

// docs/protocol.md, "Administration"
struct AdminCall {
  uint32_t action = 0;
  uint32_t flags = 0;        // kAdminForce
  uint64_t size_blocks = 0;  // UINT64_MAX: none. Of clients: those behind that number
  char volume[64] = {};
  Proof proof{};
};
static_assert(sizeof(AdminCall) == 112 && offsetof(AdminCall, proof) == 80);
constexpr uint32_t kAdminForce = 1;

struct VolumeRecord {
  char name[64] = {};
  uint64_t size_blocks = 0;  // UINT64_MAX: what the brick has
  uint64_t used_blocks = 0;
  uint64_t mapped_blocks = 0;
  uint64_t resident_blocks = 0;
  uint64_t epoch = 0;
  uint32_t held = 0;  // 1, 2: holder says by whom; 2: who is away
  uint32_t flags = 0;
  uint32_t readers = 0;
  uint32_t observers = 0;
  HolderRecord holder;
  static constexpr size_t kLeastBytes = 272;
};
static_assert(sizeof(VolumeRecord) == 272 && offsetof(VolumeRecord, holder) == 120);
constexpr uint32_t kVolumeConfigured = 1;
constexpr uint32_t kVolumeSizeConfigured = 2;
constexpr uint32_t kVolumeKeyed = 4;

// The body of an ADMINISTER about a volume's keys.
struct KeyCall {
  uint32_t action = 0;
  uint32_t rights = 0;  // of a key to add: KeyRights; else 0
  uint64_t id = 0;      // of a key to remove; else 0
  char volume[64] = {};
  std::array<std::byte, kKeyBytes> key{};  // to add, and zeros behind it: exclusive or with its pad; else zeros
  Proof proof{};
};
static_assert(sizeof(KeyCall) == 144 && offsetof(KeyCall, key) == 80 && offsetof(KeyCall, proof) == 112);

struct KeyOfVolume {
  uint64_t id = 0;
  uint32_t rights = 0;
  uint32_t sessions = 0;
  int64_t added_unix_seconds = 0;
  static constexpr size_t kLeastBytes = 24;
};
static_assert(sizeof(KeyOfVolume) == 24);

struct ClientRecord {
  uint64_t number = 0;
  char volume[64] = {};
  uint32_t mode = 0;
  uint32_t reserved = 0;
  HolderRecord holder;
  uint64_t calls = 0;
  uint64_t commits = 0;
  uint64_t committed_bytes = 0;
  uint64_t reads = 0;
  uint64_t read_bytes = 0;
  uint64_t writes = 0;
  uint64_t written_bytes = 0;
  static constexpr size_t kLeastBytes = 288;
};
static_assert(sizeof(ClientRecord) == 288 && offsetof(ClientRecord, calls) == 232);

struct AdminAnswerHead {  // followed by so many records, and the proof
  uint32_t count = 0;
  uint32_t more = 0;  // 1: there are some behind the last
  uint32_t record_bytes = sizeof(VolumeRecord);
  uint32_t reserved = 0;
};
static_assert(sizeof(AdminAnswerHead) == 16);
constexpr size_t kRecordsPerPage = 512;
static_assert(sizeof(AdminAnswerHead) + kRecordsPerPage * sizeof(VolumeRecord) + sizeof(Proof) <= kBodyBytes);
static_assert(sizeof(AdminAnswerHead) + kRecordsPerPage * sizeof(ClientRecord) + sizeof(Proof) <= kBodyBytes);

// docs/protocol.md, "Transfers"
constexpr uint32_t kReadTransfer = 0x4441'4552;   // "READ"
constexpr uint32_t kWriteTransfer = 0x5449'5257;  // "WRIT"

struct TransferHeader {  // followed, for a write, by its bytes
  uint32_t kind = 0;
  uint32_t remote_key = 0;
  uint64_t remote_address = 0;
  uint64_t id = 0;
  uint32_t length_bytes = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(TransferHeader) == 32 && offsetof(TransferHeader, length_bytes) == 24);

struct TransferAnswer {  // followed, for a read with status 0, by its bytes
  uint32_t status = 0;
  uint32_t length_bytes = 0;  // of what follows
  uint64_t id = 0;
};
static_assert(sizeof(TransferAnswer) == 16 && offsetof(TransferAnswer, id) == 8);

// What a proof covers is the body in front of it.
constexpr std::string_view kOpenPurpose = "brickfs open";
constexpr std::string_view kOpenedPurpose = "brickfs opened";
constexpr std::string_view kAttachPurpose = "brickfs attach";
constexpr std::string_view kAttachedPurpose = "brickfs attached";
constexpr std::string_view kAdministerPurpose = "brickfs administer";
constexpr std::string_view kAdministeredPurpose = "brickfs administered";
constexpr std::string_view kKeyPadPurpose = "brickfs key pad";

template <typename Body>
Proof prove(const Secret& secret, std::string_view purpose, const Nonces& nonces, const Body& body) {
  return make_proof(secret, purpose, nonces, bytes_of(body).first(offsetof(Body, proof)));
}

// --- between structs of the interface and those of the wire. EPROTO: bytes that no honest peer sends.

// A body of exactly one T.
template <typename T>
Result<T> decode(std::span<const std::byte> body) {
  if (body.size() != sizeof(T)) return Error(EPROTO, "frame has the wrong length");
  return load<T>(body);
}

// An answer of one T. A longer one has more than is known here; a shorter one is completed with T's defaults.
template <typename T>
Result<T> decode_grown(std::span<const std::byte> body) {
  if (body.size() < T::kLeastBytes) return Error(EPROTO, "frame has the wrong length");
  T value;
  std::memcpy(&value, body.data(), std::min(body.size(), sizeof(T)));
  return value;
}
// The bytes of it for a peer of these features.
template <typename T>
std::span<const std::byte> grown_bytes_of(const T& answer, uint64_t features) {
  return bytes_of(answer).first((features & kGrowingAnswers) != 0 ? sizeof(T) : T::kLeastBytes);
}

// A body of whole Ts, at most `most`.
template <typename T>
Result<std::vector<T>> decode_array(std::span<const std::byte> body, size_t most) {
  if (body.size() % sizeof(T) != 0 || body.size() / sizeof(T) > most)
    return Error(EPROTO, "frame has the wrong length");
  std::vector<T> items(body.size() / sizeof(T));
  if (!items.empty()) std::memcpy(items.data(), body.data(), body.size());
  return items;
}

std::vector<std::byte> encode(std::span<const std::byte> head, std::span<const std::byte> tail = {});

// Text is NUL-padded; a control character in what is read becomes '?'.
void put_text(std::span<char> field, std::string_view text);
Result<std::string> get_text(std::span<const char> field);

OpenCall to_call(const OpenRequest& request);
Result<OpenRequest> from_call(const OpenCall& call);
OpenAnswer to_answer(const Session& session);
Result<Session> from_answer(const OpenAnswer& answer);
HolderRecord to_record(const Holder& holder);
Result<Holder> from_record(const HolderRecord& record);
Result<Durability> durability_from(uint32_t value);

}  // namespace brickfs::wire
