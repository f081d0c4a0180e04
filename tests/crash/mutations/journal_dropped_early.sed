# fs/persistence/checkpoint_thread.cc
# the former journal is freed before the superblock begins behind it
s/^  superblock.next_ino = parts_.next_ino();/  static_cast<void>(parts_.journal.drop_before(position));\n&/
