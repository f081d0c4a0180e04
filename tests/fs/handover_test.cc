// SPDX-License-Identifier: Apache-2.0
// A coordinator that is asked to give its volume away: whom it chooses, what it refuses, and what members know of it.
#include "fs/shared/handover.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fs/shared/coordinator.h"
#include "fs/shared/coordinator_link.h"
#include "fs/shared/leased_files.h"
#include "tests/support/mounted_volume.h"
#include "tests/support/sharing_bed.h"

namespace brickfs::shared {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Next = CoordinatorLink::Lost::Next;

const std::vector<HandoverCandidate> kCandidates = {
    {1, "reader (pid 1)", true, true}, {2, "silent (pid 2)", false, false}, {3, "coordinator (pid 3)", false, true},
    {4, "long (pid 4)", false, true},  {5, "both (pid 5)", true, true},     {6, "both (pid 6)", false, true},
};

TEST(Successor, IsWhoHasBeenThereLongestAndCanWrite) {
  EXPECT_EQ(choose_successor(kCandidates, 3, "").session, 4u);
  EXPECT_EQ(choose_successor(kCandidates, 0, "").session, 3u) << "one that is no member of itself";
}

TEST(Successor, IsNamedByItsHostOrAsItCallsItself) {
  EXPECT_EQ(choose_successor(kCandidates, 3, "both").session, 6u);
  EXPECT_EQ(choose_successor(kCandidates, 3, "both (pid 6)").session, 6u);
  EXPECT_EQ(choose_successor(kCandidates, 3, "both (pid 6)").text, "both (pid 6)");
}

TEST(Successor, WhoCannotIsRefusedWithItsReason) {
  const auto refusal = [](SessionId own, const std::string& to, size_t of = kCandidates.size()) {
    const auto answer = choose_successor(std::span(kCandidates).first(of), own, to);
    EXPECT_EQ(answer.session, 0u);
    return std::pair(answer.status, answer.text);
  };
  EXPECT_EQ(refusal(3, "nowhere"), std::pair(ENOENT, std::string("nowhere is no member of it")));
  EXPECT_EQ(refusal(3, "lon"), std::pair(ENOENT, std::string("lon is no member of it")));
  EXPECT_EQ(refusal(3, "coordinator"), std::pair(EALREADY, std::string("coordinator (pid 3) coordinates it")));
  EXPECT_EQ(refusal(3, "reader"), std::pair(EROFS, std::string("reader (pid 1) has it read-only")));
  EXPECT_EQ(refusal(3, "both (pid 5)").first, EROFS);
  EXPECT_EQ(refusal(3, "silent").first, EAGAIN);
  EXPECT_EQ(refusal(3, "", 1).first, EROFS);
  EXPECT_EQ(refusal(3, "", 0), std::pair(ENOENT, std::string("it has no other member")));
}

class Handover : public ::testing::Test, public HandsOver {
 protected:
  ~Handover() override {
    links_.clear();
    coordinator_->stop();
  }
  SessionId own_session() const override { return own_; }
  std::string own_name() const override { return "coordinator (pid 3)"; }
  Status hand_over(const HandoverAnswer& to) override {
    if (refuses_ != 0) return Error(refuses_, "it is not to be");
    asked_ = to.session;
    coordinator_->name_successor(to.session);
    return {};
  }

  void share(ClientId client) {
    coordinator_ = *Coordinator::listen("127.0.0.1", 0, "home", kSecret);
    own_files_ = std::make_unique<LeasedFiles>(*volume_, coordinator_->leases());
    client_ = client;
    coordinator_->serve({*own_files_, &*volume_, client, nullptr, &*volume_, this}, seconds(30));
  }
  SessionId join(const std::string& name) {
    CoordinatorLink::Config config = member_config(coordinator_->port(), ClientId{100 + links_.size()});
    config.request.name = name;
    config.seek = [this, name](const CoordinatorLink::Lost& lost) {
      MutexLock lock(mutex_);
      next_[name] = lost.next;
      if (moves_to_ == 0) return CoordinatorLink::Sought{};
      return CoordinatorLink::Sought{CoordinatorLink::Sought::Kind::kMoved, {"127.0.0.1", moves_to_}, "", client_};
    };
    std::string why;
    links_.push_back(std::move(*CoordinatorLink::join(std::move(config), &why)));
    return links_.back()->session();
  }
  // The coordinator goes, another one comes; each member says what it knew of that.
  std::map<std::string, Next> move() {
    {
      MutexLock lock(mutex_);
      next_.clear();
      moves_to_ = 0;
    }
    coordinator_->stop();
    const auto until = std::chrono::steady_clock::now() + seconds(20);
    std::map<std::string, Next> known;
    while (known.size() < links_.size() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(10));
      MutexLock lock(mutex_);
      known = next_;
    }
    volume_.crash_and_mount();
    share(ClientId{static_cast<uint64_t>(client_) + 1});
    MutexLock lock(mutex_);
    moves_to_ = coordinator_->port();
    return known;
  }
  HandoverAnswer ask(const std::string& to, const std::function<void(HandoverRequest&)>& edit = nullptr) {
    HandoverRequest request{client_, "home", to};
    if (edit) edit(request);
    const auto answer = ask_handover({"127.0.0.1", coordinator_->port()}, kSecret, request);
    EXPECT_TRUE(answer.ok());
    return answer.ok() ? *answer : HandoverAnswer{-1, 0, ""};
  }
  bool comes_to_know() {
    const auto until = std::chrono::steady_clock::now() + seconds(20);
    while (!coordinator_->is_successor_known() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(milliseconds(10));
    return coordinator_->is_successor_known();
  }
  bool is_served() {
    const auto until = std::chrono::steady_clock::now() + seconds(20);
    while (coordinator_->in_grace() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(milliseconds(10));
    return !coordinator_->in_grace();
  }

  const ClientSecret kSecret{secret_of(kTestSecret)};
  MountedVolume volume_{MountedVolume::Options{.mount = {.shared = true}}};
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<LeasedFiles> own_files_;
  ClientId client_{};
  SessionId own_ = 0;
  int refuses_ = 0;
  SessionId asked_ = 0;
  std::vector<std::unique_ptr<CoordinatorLink>> links_;
  Mutex mutex_;
  std::map<std::string, Next> next_ ABSL_GUARDED_BY(mutex_);
  uint16_t moves_to_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_F(Handover, MembersKnowWhoIsNextUntilTheyHaveComeToHim) {
  share(ClientId{7});
  join("a (pid 1)");
  const SessionId b = join("b (pid 2)");
  join("c (pid 3)");
  const HandoverAnswer answer = ask("b");
  EXPECT_EQ(answer.status, 0);
  EXPECT_EQ(answer.text, "b (pid 2)");
  EXPECT_EQ(asked_, b);
  ASSERT_TRUE(comes_to_know());
  EXPECT_EQ(move(), (std::map<std::string, Next>{
                        {"a (pid 1)", Next::kAnother}, {"b (pid 2)", Next::kThis}, {"c (pid 3)", Next::kAnother}}));
  ASSERT_TRUE(is_served());
  EXPECT_EQ(move(), (std::map<std::string, Next>{
                        {"a (pid 1)", Next::kAnyone}, {"b (pid 2)", Next::kAnyone}, {"c (pid 3)", Next::kAnyone}}));
  ASSERT_TRUE(is_served());
}

TEST_F(Handover, OnlyWhoCanIsAsked) {
  share(ClientId{7});
  EXPECT_EQ(ask("").status, ENOENT);
  EXPECT_EQ(ask("coordinator").text, "coordinator (pid 3) coordinates it") << "who is no member of itself";
  own_ = join("a (pid 1)");
  EXPECT_EQ(ask("").text, "it has no other member");
  EXPECT_EQ(ask("a").status, EALREADY);
  join("b (pid 2)");
  refuses_ = EOPNOTSUPP;
  const HandoverAnswer refused = ask("b");
  EXPECT_EQ(refused.status, EOPNOTSUPP);
  EXPECT_EQ(refused.text, "it is not to be");
  EXPECT_EQ(asked_, 0u);
}

TEST_F(Handover, IsOfTheOneThatTheBricksTellOfAndOfWhoKnowsTheSecret) {
  share(ClientId{7});
  join("a (pid 1)");
  EXPECT_EQ(ask("a", [](HandoverRequest& asked) { asked.coordinator = ClientId{8}; }).status, EAGAIN);
  EXPECT_EQ(ask("a", [](HandoverRequest& asked) { asked.volume = "other"; }).status, EAGAIN);
  const auto refused =
      ask_handover({"127.0.0.1", coordinator_->port()}, secret_of("another secret"), {client_, "home", "a"});
  EXPECT_EQ(refused.code(), EACCES);
  EXPECT_EQ(asked_, 0u);
}

}  // namespace
}  // namespace brickfs::shared
