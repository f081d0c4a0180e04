# fs/operations/file_change.cc
# bytes that a truncation left behind are written over before it is durable
s/if (waits_for_truncation_) TRY/if (false) TRY/
