// SPDX-License-Identifier: Apache-2.0
#include "fs/operations/ending.h"

#include <gtest/gtest.h>

#include "tests/support/mounted_volume.h"

namespace brickfs {
namespace {

// It is given up as soon as it is looked at with something that is not committed.
TEST(Ending, AnUnmountThatSucceedsAsItIsGivenUpHasLostNothing) {
  MountedVolume volume;
  int made = 0;
  for (int tries = 0; tries < 100; ++tries) {
    Ending ending(*volume, std::chrono::seconds(0));
    ending.begin();
    make_file(*volume, std::to_string(made++));
    ending.check();
    if (ending.lost().empty()) continue;  // committed by the background's thread meanwhile
    EXPECT_TRUE(ending.outcome({}).ok());
    EXPECT_EQ(ending.outcome(Error(ECANCELED, "interrupted")).code(), ETIMEDOUT);
    return;
  }
  FAIL() << "everything was committed at once";
}

TEST(Ending, WithoutGivingUpItComesToWhatTheUnmountAnswers) {
  MountedVolume volume;
  const Ending ending(*volume, std::chrono::seconds(15));
  EXPECT_TRUE(ending.outcome({}).ok());
  EXPECT_EQ(ending.outcome(Error(EIO, "a disk")).code(), EIO);
}

}  // namespace
}  // namespace brickfs
