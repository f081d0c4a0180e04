# fs/served/served_volume.cc
# who takes over does not wait out the lease of the former coordinator
# shared
s/  if (!is_over && !filesystem_->was_unmounted()) std::this_thread::sleep_until(fenced + limits::kLease);//
