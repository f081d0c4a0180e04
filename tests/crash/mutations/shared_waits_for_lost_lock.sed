# fs/operations/lock_table.cc
# who waits for a lock is not told that the volume is lost
# shared
s/    if (goes_on.ok()) goes_on = lost_();//
