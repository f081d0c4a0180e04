# transport/volume/replay_log.cc
# a commit leaves the data out
s/  for (const Record\* record : records) {/&\n    if (record->stage == Stage::kData) continue;/
