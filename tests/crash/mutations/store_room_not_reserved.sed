# server/block_store.cc
# a block is allocated without room on the disk
# store
s/Status written = reserve_room(made);/Status written;/
