// SPDX-License-Identifier: Apache-2.0
#include "server/peers/admitted_connections.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/service/server_limits.h"

namespace brickfs {
namespace {

using Kind = AdmittedConnections::Kind;
using Places = std::vector<AdmittedConnections::Place>;

// A session with as many connections as it gets, up to `most`; their number.
size_t connect(AdmittedConnections& all, Kind kind, const std::string& volume, Places& places, size_t most) {
  for (size_t has = 0; has < most; ++has) {
    auto place = all.enter({kind, volume, has});
    if (!place) return has;
    places.push_back(std::move(place));
  }
  return most;
}

TEST(AdmittedConnections, OneLeavesWithItsPlace) {
  AdmittedConnections all(8, 56);
  Places places;
  for (size_t i = 0; i < 56; ++i) places.push_back(all.enter({Kind::kOther, "", 0}));
  EXPECT_FALSE(all.enter({Kind::kOther, "", 0}));
  EXPECT_EQ(connect(all, Kind::kHolder, "v", places, 9), limits::kConnectionsNeeded);
  EXPECT_EQ(all.count(), 56 + limits::kConnectionsNeeded);
  places.pop_back();
  EXPECT_TRUE(all.enter({Kind::kHolder, "v", 0}));
  places.clear();
  EXPECT_EQ(all.count(), 0u);
  EXPECT_GT(connect(all, Kind::kShared, "v", places, 20), limits::kConnectionsNeeded);
  places.clear();
  EXPECT_EQ(all.count(), 0u);
}

// All that may follow one volume, with all that a session may have, took each thread that there was.
TEST(AdmittedConnections, WhoShareOneVolumeLeaveRoomToHoldersAndToThoseOfOthers) {
  AdmittedConnections all(limits::kConnectionsKept, limits::kConnections);
  Places places;
  for (size_t i = 0; i < limits::kFollowers; ++i)
    connect(all, Kind::kShared, "followed", places, limits::kConnectionsPerSession);
  EXPECT_LE(all.count(), limits::kConnections / 5 * 4 + 1);
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(connect(all, Kind::kHolder, std::to_string(i), places, 8), 8u) << "volume " << i;
  EXPECT_GE(connect(all, Kind::kShared, "read", places, 14), limits::kConnectionsNeeded);
  while (auto place = all.enter({Kind::kOther, "", 0})) places.push_back(std::move(place));
  EXPECT_EQ(connect(all, Kind::kHolder, "last", places, 14), limits::kConnectionsNeeded);
}

TEST(AdmittedConnections, TheHolderOfEachVolumeHasWhatItNeedsWhateverOthersWant) {
  AdmittedConnections all(limits::kConnectionsKept, limits::kConnections);
  Places places;
  for (size_t i = 0; i < limits::kVolumes; ++i) {
    EXPECT_GE(connect(all, Kind::kHolder, std::to_string(i), places, limits::kConnectionsPerSession),
              limits::kConnectionsNeeded);
  }
}

TEST(AdmittedConnections, AllThatMayReadAVolumeDo) {
  AdmittedConnections all(limits::kConnectionsKept, limits::kConnections);
  Places places;
  for (size_t i = 0; i < limits::kReadOnlyHolders; ++i)
    EXPECT_GE(connect(all, Kind::kShared, "read", places, 14), limits::kConnectionsNeeded) << i;
}

}  // namespace
}  // namespace brickfs
