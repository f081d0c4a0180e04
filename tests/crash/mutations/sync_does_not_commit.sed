# fs/persistence/journal.cc
# fsync waits for the write, not for the commit
s/if (durable_brick_ \&\& work->commit) commit(work->syncs);/if (durable_brick_ \&\& work->commit) set_durable(written(), work->syncs);/
