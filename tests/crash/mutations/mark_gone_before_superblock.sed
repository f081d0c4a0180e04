# fs/recovery/make.cc
# the mark of a making is removed before there is a superblock
s/^  TRY(slots.write(superblock));/  TRY(write_mark(volume, Mark::kNone));\n&/
