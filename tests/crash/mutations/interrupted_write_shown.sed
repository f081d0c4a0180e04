# transport/volume/volume_data.cc
# a write that was interrupted while its bytes were under way counts as done
# faults
s/  TRY(transfer(round, stage, room, patience));/  const Status moved = transfer(round, stage, room, patience); if (!moved.ok() \&\& moved.code() != EINTR) return moved.error();/
