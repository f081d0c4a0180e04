# fs/persistence/journal.cc
# fsync waits for the write, not for the commit
s/} else if (work->commit) {/} else if (work->commit) { set_durable(written(), work->syncs);\n    } else if (false) {/
