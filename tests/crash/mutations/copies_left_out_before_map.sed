# transport/volume/mirror_map.cc
# a replica is left out, and work goes on, before the map says so
# explore --bricks 2 --copies 2 --max-ops 2
/^void Mirror::ask_map_to_leave_out/,/^}/s/^  const auto asked = /  for (Replica* replica : leaving) {\n    raise(*replica, ReplicaEvent::kMapOut);\n    raise(*replica, ReplicaEvent::kOthersMarked);\n  }\n  if (!leaving.empty()) {\n    MutexLock lock(mutex_);\n    static_cast<void>(changed_.wait_for(lock, milliseconds(500)));\n  }\n&/
