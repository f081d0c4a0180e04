# transport/volume/mirror_map.cc
# a replica is left out before the map says so, which takes a while
# explore --bricks 2 --copies 2 --max-ops 2
/^void Mirror::take_out/,/^}/s/  bool stays = false;/&\n  if (has_another(replica, true)) {\n    MutexLock lock(mutex_);\n    replica.state = ReplicaState::kStale;\n    changed_.notify_all();\n    static_cast<void>(changed_.wait_for(lock, milliseconds(500)));\n  }/
