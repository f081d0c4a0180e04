# server/store/block_commit.cc
# a slot is used again before its clearing is durable
# store
s/(i < done ? cleared_slots_ : freed_slots_).insert(freed\[i\]);/if (i < done) { free_slots_.add(freed[i].first, freed[i].count()); } else { freed_slots_.insert(freed[i]); }/
