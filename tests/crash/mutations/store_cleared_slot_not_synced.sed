# server/store/block_commit.cc
# a slot is used again before its clearing is durable
# store
s/^  cleared_slots_.insert(cleared_slots_.end(), freed.begin(), freed.begin() + static_cast<std::ptrdiff_t>(done));/  if (synced.ok()) for (size_t i = 0; i < done; ++i) free_slots_.add(freed[i]);/
