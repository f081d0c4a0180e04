# fs/shared/coordinator.cc
# another gets the lock of who is expelled before the journal says that he is
# shared
s/^    return files_->await_written({.interruption = \&stopping_});/    return {};/
