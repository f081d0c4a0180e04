# server/store/store_copies.cc
# records and entries are written to the first copy alone
# store
s/^  return copy_at_ != 0 ? write_at(copy_at_ + offset, from) : Status();/  return {};/
