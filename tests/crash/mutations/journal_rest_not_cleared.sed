# fs/persistence/journal_writer.cc
# the journal goes on in a block that has a torn batch in it
s/if (end.fresh_dirty) {/if (false) {/
