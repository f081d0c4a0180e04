# transport/volume/mirror_map.cc
# a replica is left out before the map says so
# explore --bricks 2 --copies 2 --max-ops 2
/^void Mirror::take_out/,/^}/s/  bool stays = false;/&\n  if (has_another(replica, true)) replica.state = ReplicaState::kStale;\n  changed_.notify_all();/
