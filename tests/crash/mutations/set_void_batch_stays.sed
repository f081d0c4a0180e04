# fs/persistence/journal_writer.cc
# what is not believed stays behind the end of the journal
# explore --bricks 2 --max-ops 2
s/if (end.void_batch) {/if (false) {/
