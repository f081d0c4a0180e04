# fs/persistence/journal.cc
# a sync waits for one that is under way, which may have begun before what it is to make durable
# explore --seeds 300 --sequence 'submit append b 10; submit fsync b; submit write a 0 200; wait 2; submit fsync a; wait'
s/  const uint64_t ticket = ++syncs_asked_;/  const uint64_t ticket = is_sync_asked() ? syncs_asked_ : ++syncs_asked_;/
