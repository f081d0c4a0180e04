# transport/volume/mirror_repair.cc
# a replica is in sync again without what it missed
# explore --bricks 2 --copies 2 --max-ops 2
s/TRY(copy_held(replica, to_copy, begun.boot));//
