# transport/volume/mirror_resync.cc
# blocks with rows are left different
# explore --bricks 2 --copies 2 --max-ops 2
/^Status Mirror::resync_replica/,/^}/s/copied = copy_block(source, target, block.start);/static_cast<void>(block);/
