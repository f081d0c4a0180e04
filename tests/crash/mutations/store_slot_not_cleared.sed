# server/store/block_commit.cc
# the slot of a freed block is not cleared
# store
s/punched = store_->punch(freed\[done\].first, freed\[done\].count());/punched = Status();/
