# fs/served/served_volume.cc
# who takes a volume that was unmounted just before waits out the lease of the former coordinator
# shared
s/  if (!is_over && !filesystem_->was_unmounted()) std/  if (!is_over) std/
