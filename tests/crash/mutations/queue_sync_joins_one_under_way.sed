# fs/persistence/journal.cc
# a sync waits for one that is under way, which may have begun before what it is to make durable
s/  const uint64_t ticket = ++syncs_asked_;/  const uint64_t ticket = is_sync_asked() ? syncs_asked_ : ++syncs_asked_;/
