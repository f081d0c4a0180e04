// SPDX-License-Identifier: Apache-2.0
// Every state of a replica with every event: what must never happen, and that docs/recovery.md has the table.
#include "transport/volume/replica.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace brickfs {
namespace {

using Event = ReplicaEvent;
using Phase = ReplicaPhase;

template <typename Check>
void for_all(Check&& check) {
  for (size_t phase = 0; phase < kReplicaPhases; ++phase) {
    for (size_t event = 0; event < kReplicaEvents; ++event) {
      const auto from = static_cast<Phase>(phase);
      const auto by = static_cast<Event>(event);
      SCOPED_TRACE(fmt::format("{} + {}", name_of(from), name_of(by)));
      check(from, by, step(from, by));
    }
  }
}

TEST(ReplicaTable, HasNoRowTwiceNorOneThatChangesNothing) {
  std::set<std::pair<Phase, Event>> seen;
  for (const ReplicaRule& rule : replica_rules()) {
    SCOPED_TRACE(fmt::format("{} + {}", name_of(rule.phase), name_of(rule.event)));
    EXPECT_TRUE(seen.emplace(rule.phase, rule.event).second);
    EXPECT_NE(rule.step, ReplicaStep{rule.phase});
    EXPECT_EQ(step(rule.phase, rule.event), rule.step);
  }
}

TEST(ReplicaTable, WhatMayBeBelievedIsLeftOutByTheMapAndTheMarksOfOthersAlone) {
  for_all([](Phase from, Event by, const ReplicaStep& step) {
    if (!may_be_believed(from) || may_be_believed(step.next)) return;
    EXPECT_TRUE((is_out(from) && by == Event::kOthersMarked) || (from == Phase::kMayGo && by == Event::kLetGo));
  });
}

TEST(ReplicaTable, TheMapHasSaidThatOneIsOutBeforeTheOthersAreMarked) {
  for_all([](Phase from, Event by, const ReplicaStep& step) {
    const auto is_gone = [](Phase phase) {
      return is_out(phase) || phase == Phase::kDismissed || phase == Phase::kMayGo;
    };
    if (is_gone(from) || !is_gone(step.next)) return;
    EXPECT_TRUE(by == Event::kMapOut || by == Event::kMapDismissed);
  });
}

TEST(ReplicaTable, WhatIsNotWrittenComesBackByBeingAdmittedAlone) {
  for_all([](Phase from, Event by, const ReplicaStep& step) {
    if (is_written(from) || !is_written(step.next)) return;
    EXPECT_EQ(by, Event::kAdmitted);
    EXPECT_EQ(step.next, Phase::kSyncing);
  });
}

TEST(ReplicaTable, WhatIsBroughtUpToDateIsReadBehindTheMapsAnswerAlone) {
  for_all([](Phase from, Event by, const ReplicaStep& step) {
    if (has_everything(from) || !has_everything(step.next)) return;
    EXPECT_TRUE(may_be_believed(from));  // its copy is whole
    EXPECT_EQ(by, Event::kTaken);
    EXPECT_TRUE(step.actions & kHasEverything);
  });
}

TEST(ReplicaTable, WhatOneMissesIsForgottenBehindTheMapsAnswerAlone) {
  for_all([](Phase, Event by, const ReplicaStep& step) {
    EXPECT_TRUE(!(step.actions & kHasEverything) || by == Event::kTaken);
  });
}

TEST(ReplicaTable, WhoeverIsWrittenNoMoreHasItNotedOrForgotten) {
  for_all([](Phase from, Event, const ReplicaStep& step) {
    if (!is_written(from) || is_written(step.next)) return;
    EXPECT_TRUE(step.actions & (kNoteWhatItMisses | kForgetWhatItHas));
    EXPECT_EQ((step.actions & kCutOff) != 0, step.next == Phase::kStale);
    EXPECT_TRUE(!is_failing(from) || (step.actions & kForgetWhatItHas));
  });
}

TEST(ReplicaTable, WhatIsLostOrFailingIsNotForgottenOnTheWayOut) {
  for_all([](Phase from, Event by, const ReplicaStep& step) {
    const bool is_lost = is_written(from) && (by == Event::kLost || by == Event::kStoreFailed);
    // Until it is out, or it was another's trouble.
    const bool stays = is_failing(from) && is_written(step.next) && by != Event::kForgiven;
    EXPECT_TRUE(is_failing(step.next) || (!is_lost && !stays));
  });
}

TEST(ReplicaTable, ASilentOneMayComeBackAndADoubtedOneMayNot) {
  EXPECT_EQ(step(Phase::kSilent, Event::kAnswers).next, Phase::kInSync);
  for_all([](Phase from, Event by, const ReplicaStep& step) {
    EXPECT_TRUE(by != Event::kAnswers || from == Phase::kSilent || step == ReplicaStep{from});
  });
}

// From what a mount begins with: a stale one, and one in sync.
TEST(ReplicaTable, EveryStateIsReached) {
  std::set<Phase> reached{Phase::kStale, Phase::kInSync};
  for (size_t before = 0; before != reached.size();) {
    before = reached.size();
    for (const ReplicaRule& rule : replica_rules()) {
      if (reached.contains(rule.phase)) reached.insert(rule.step.next);
    }
  }
  EXPECT_EQ(reached.size(), kReplicaPhases);
}

std::string actions_of(uint8_t actions) {
  std::string text;
  for (const auto one : {kNoteWhatItMisses, kForgetWhatItHas, kCutOff, kHasEverything}) {
    if (actions & one) text += (text.empty() ? "" : ", ") + std::string(name_of(one));
  }
  return text;
}

TEST(ReplicaTable, IsInTheDocumentation) {
  std::string table = "| state | event | next | and |\n|---|---|---|---|\n";
  for (const ReplicaRule& rule : replica_rules()) {
    table += fmt::format("| {} | {} | {} | {} |\n", name_of(rule.phase), name_of(rule.event), name_of(rule.step.next),
                         actions_of(rule.step.actions));
  }
  std::ifstream file(TRANSPORT_DOCS "/recovery.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(table), std::string::npos) << "docs/recovery.md should have:\n" << table;
}

}  // namespace
}  // namespace brickfs
