# fs/shared/coordinator_sought.cc
# calls are made at the next coordinator before what is held is claimed
# shared
s/^    address_ = HostPort{\"\", 0};.*/    address_ = next.address; coordinator_ = joined.coordinator;/
