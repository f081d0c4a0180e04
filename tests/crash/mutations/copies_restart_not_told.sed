# transport/volume/mirror_map.cc
# the map does not hear that a brick of a replica in sync has restarted
# explore --bricks 2 --copies 2 --max-ops 2
/^void Mirror::tell_restarts/,/^}/s/^      entry.boot = boot;//
