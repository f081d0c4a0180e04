# server/store/store_resize.cc
# a header may tell of slots that the file does not have yet
# store
/^Status StoreFile::prepare_slots/,/^}/s/  return sync();/  return {};/
