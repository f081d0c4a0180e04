# transport/volume/mirror_repair.cc
# a replica is in sync again before what was copied is durable
# explore --bricks 2 --copies 2 --max-ops 2
s/^  TRY(joined.commit());//
