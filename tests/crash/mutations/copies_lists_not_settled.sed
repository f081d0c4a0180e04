# transport/volume/mirror_resync.cc
# lists of blocks are left different
# explore --bricks 2 --copies 2 --max-ops 2
/^Status Mirror::resync_replica/,/^}/s/TRY(make_alike(source, target, differ));//
