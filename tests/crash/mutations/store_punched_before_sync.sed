# server/store/block_commit.cc
# a slot is cleared before the freeing of its block is durable
# store
s/^  const Status synced = store_->sync();/  for (const Slots\& run : freed) static_cast<void>(store_->punch(run.first, run.count()));\n&/
