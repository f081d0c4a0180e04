# server/store/block_commit.cc
# the ranges of a commit become durable in any order
# store
s/^    if (unsynced \&\& !round.empty()) TRY(sync());//
