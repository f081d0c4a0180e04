# server/store/block_store.cc
# a block is allocated without room on the disk
# store --seed 120
s/Status written = reserve_room(made);/Status written;/
