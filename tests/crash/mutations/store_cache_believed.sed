# server/store/store_open.cc
# after a failed sync a new brick believes what the system remembers
# store
s/^  device_->forget_cache();//
