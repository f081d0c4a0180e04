# fs/recovery/recovery.cc
# what is not believed stays behind the end of the journal
# explore --bricks 2 --max-ops 2
s/if (recovered.journal.void_batch) TRY/if (false) TRY/
