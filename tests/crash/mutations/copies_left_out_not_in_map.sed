# transport/volume/mirror_map.cc
# a replica is left out, and the map goes on calling it in sync
# explore --bricks 2 --copies 2 --max-ops 2
/^void Mirror::take_out/,/^}/s/    set_state(\*entry, ReplicaState::kStale, map.generation + 1);//
