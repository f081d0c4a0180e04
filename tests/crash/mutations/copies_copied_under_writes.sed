# transport/volume/mirror_repair.cc
# a block is copied while others write to it
# explore --bricks 2 --copies 2 --max-ops 2
/^Status Mirror::copy_held/,/^}/s/const ActiveBlocks::Claim held = active_.hold(block);//
