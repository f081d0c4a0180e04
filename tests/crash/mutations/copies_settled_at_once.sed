# transport/volume/mirror_repair.cc
# what a crashed client left different is made equal, and durable, without the order of stages
# explore --bricks 2 --copies 2 --max-ops 2
/^Status Mirror::settle_replica/,/^}/s/  TRY(copy(rest));/  TRY(copy(differ));\n  TRY(target.commit());/
