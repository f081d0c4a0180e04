# fs/shared/coordinator.cc
# the next coordinator changes things before members have come
# shared
s/^  in_grace_ = true;//; s/^  leases_.hold_back(true);//
