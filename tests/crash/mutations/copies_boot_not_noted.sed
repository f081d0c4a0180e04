# transport/volume/mirror_repair.cc
# the map does not know in which boot a replica came back in sync
# explore --bricks 2 --copies 2 --max-ops 2
s/^ *entry.boot = joined.session().boot;//
