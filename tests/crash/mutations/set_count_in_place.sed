# transport/volume/commit_counter.cc
# the number of a commit is written over the last one that has ended
# explore --bricks 2 --max-ops 2
s/highest_ % 2 == last_ % 2/highest_ % 2 != last_ % 2/
