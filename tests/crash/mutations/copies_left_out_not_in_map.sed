# transport/volume/mirror_map.cc
# a replica is left out, and the map goes on calling it in sync
# explore --bricks 2 --copies 2 --max-ops 2
/^bool Mirror::leave_out_of/,/^}/s/^  set_state(\*entry, ReplicaState::kStale, map.generation + 1);//
/^void Mirror::ask_map_to_leave_out/,/^}/s/^  follow_map();/  for (Replica* replica : leaving) {\n    raise(*replica, ReplicaEvent::kMapOut);\n    raise(*replica, ReplicaEvent::kOthersMarked);\n  }/
