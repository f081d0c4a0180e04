# fs/operations/mount.cc
# the mark of an orderly unmount stays during a mount
s/^  if (head_.mark != Mark::kNone) TRY(write_mark(volume_, Mark::kNone));//
