# server/store/block_store.cc
# the slot of a freed block is used again before its freeing is durable
# store
s/if (block->slot != kNone) freed_slots_.insert({block->slot, block->slot + 1});/if (block->slot != kNone) free_slots_.add(block->slot);/
