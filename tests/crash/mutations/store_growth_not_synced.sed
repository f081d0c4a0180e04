# server/store/store_resize.cc
# a header may tell of slots that the file does not have yet
# store
/(to - from) \* sizeof(StoreEntry)));$/{
n
s/  return sync();/  return {};/
}
