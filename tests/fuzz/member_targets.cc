// SPDX-License-Identifier: Apache-2.0
// Between the machines of a shared volume, behind the proof that both know its secret.
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "fs/shared/join.h"
#include "fs/shared/leases.h"
#include "fs/shared/member_session.h"
#include "fs/shared/served_call.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/mounted_volume.h"
#include "transport/base/check.h"

namespace brickfs::fuzz {
namespace {

using namespace shared;

constexpr uint64_t kSharedVolumeBytes = 24 * kMiB;
constexpr unsigned kInputsOfAVolume = 64;  // then a new one is mounted

// A coordinator's side of one member, but for the connections.
class Bed {
 public:
  Bed() { leases_.join(1); }
  ~Bed() {
    session_.end();
    leases_.leave(1);
  }
  Bed(const Bed&) = delete;
  Bed& operator=(const Bed&) = delete;

  void call(const Decoded& call) {
    const auto perform = [this](const Decoded& asked, const MemberReply*, const OperationContext& context) {
      return serve_call(
          *volume_, leases_, nullptr, {ClientId{7}, name_}, asked, room_, [](const ChangedFile&) {}, context);
    };
    const auto say = [](const MemberSession::Answer&) { return Status(); };
    static_cast<void>(session_.call(0, ++calls_, call, perform, say));
  }

 private:
  MountedVolume volume_{{.memory_bytes = kSharedVolumeBytes, .durable = false, .mount = {.shared = true}}};
  Leases leases_;
  const std::string name_ = "a member";
  std::vector<std::byte> room_ = std::vector<std::byte>(kMostData);
  MemberSession session_{*volume_, leases_, nullptr, 1, JoinRequest()};
  uint64_t calls_ = 0;
};

// Which wait for others, of whom there are none, are not waited for.
bool would_wait(const Request& request) {
  if (const auto* const lock = std::get_if<SetLock>(&request)) return lock->waits;
  return std::holds_alternative<AwaitRecalls>(request) || std::holds_alternative<Leave>(request);
}

template <size_t kAt = 0>
void decode_answer_of(size_t kind, Input body) {
  if constexpr (kAt < kKinds) {
    if (kind != kAt) return decode_answer_of<kAt + 1>(kind, body);
    using Answer = typename std::variant_alternative_t<kAt, Request>::Answer;
    if (const auto answer = decode<Answer>(body); answer.ok()) CHECK(decode<Answer>(encode(*answer)).ok());
  }
}

}  // namespace

void member_calls(Input input) {
  static std::optional<Bed> bed;
  static unsigned inputs = 0;
  if (inputs++ % kInputsOfAVolume == 0) bed.emplace();
  Cut cut(input);
  while (!cut.empty()) {
    const uint16_t kind = cut.number<uint8_t>() % (kKinds + 1);
    const auto call = decode_request(kind, cut.piece());
    if (call.ok() && !would_wait(call->request)) bed->call(*call);
  }
}

void member_answers(Input input) {
  Cut cut(input);
  const auto kind = cut.number<uint8_t>();
  if (kind < kKinds) return decode_answer_of(kind, cut.rest());
  Message message;
  message.header.kind = static_cast<uint16_t>(kJoin);
  message.body.assign(cut.rest().begin(), cut.rest().end());
  static_cast<void>(check_join(Secret{}, Nonces{}, message));
  static_cast<void>(request_in(message));
}

}  // namespace brickfs::fuzz
