# fs/recovery/make.cc
# the making of a file system is not marked
s/^  TRY(write_mark(volume, Mark::kMaking));//
