# fs/persistence/journal_reader.cc
# the journal is believed behind what was durable on a brick that has restarted
# explore --bricks 2 --max-ops 2
s/trusted_(volume.trusted_position().value_or(UINT64_MAX))/trusted_(UINT64_MAX)/
