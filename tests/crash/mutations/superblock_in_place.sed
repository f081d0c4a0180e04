# fs/persistence/superblock.cc
# only one copy of the superblock is ever written, over the one that is in force
s/const size_t first = 1 - good_slot_;/const size_t first = good_slot_;/
s/return write_slot(1 - first, superblock);/return {};/
