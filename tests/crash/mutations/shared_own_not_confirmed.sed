# fs/served/served_volume.cc
# what a coordinator tells its own programs is not confirmed
# shared
s/^    return coordinator->confirm_own(began, soft, by);/    return Status();/
