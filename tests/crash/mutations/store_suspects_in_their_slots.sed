# server/store/block_residency.cc
# a suspect block is stored in its slot when its frame is needed, or the brick stopped
# store
s/return block.suspect ? store_apart(block) : store_writes(block);/return store_writes(block);/
