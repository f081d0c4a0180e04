# fs/persistence/checkpoint_thread.cc
# the former checkpoint is freed before the superblock stops naming it
s/^  superblock.next_ino = parts_.next_ino();/  for (const BlockRange\& run : current_.checkpoint.runs) static_cast<void>(parts_.space.free_metadata(run)); current_.checkpoint.runs.clear();\n&/
