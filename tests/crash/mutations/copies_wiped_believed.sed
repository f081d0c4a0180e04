# transport/volume/volume_set_replicated.cc
# a replica without its mark is taken for one that has everything
# explore --bricks 2 --copies 2 --max-ops 2
s/if (has_mark || !map_.places\[place\].made) continue;/continue;/
