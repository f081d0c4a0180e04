# server/store/store_open.cc
# a new store is extended before its header is durable
# store
s/if (written.ok()) written = sync();/if (written.ok()) written = device_->grow(slots_begin(header) + slots * kBlockBytes);/
