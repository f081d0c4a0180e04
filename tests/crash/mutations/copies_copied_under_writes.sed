# transport/volume/mirror_repair.cc
# a block is copied while others write to it
# explore --bricks 2 --copies 2 --seeds 300 --sequence "write a 0 4096; write a 100 50; write a 4000 3000; write a 100 50; write a 0 4096; write a 100 50"
/^Status Mirror::copy_held/,/^}/s/const ActivityLog::Claim held = activity_log_.hold(block);//
