# transport/volume/volume_set.cc
# the record says that all is durable on the other bricks before it is
# explore --bricks 2 --max-ops 2
s/  TRY(commit_others(by));/  if (position) TRY(write_commit_record(first, record_number, *position, by));\n  TRY(commit_others(by));/;s/  if (!position) return {};/  return {};/
