# server/store/block_commit.cc
# a slot is cleared before the freeing of its block is durable
# store
s/^  const Status synced = store_->sync();/  for (const uint32_t slot : freed) static_cast<void>(store_->punch(slot));\n&/
