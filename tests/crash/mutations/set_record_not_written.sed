# transport/volume/volume_set.cc
# nothing says up to where all was durable on the other bricks
# explore --bricks 2 --max-ops 2
s/return write_commit_record(first, record_number, \*position, by);/return {};/
