# transport/volume/mirror_map.cc
# a replica is left out, and work goes on, before the map says so
# explore --bricks 2 --copies 2 --max-ops 2
/^void Mirror::take_out/,/^}/s/  bool stays = false;/&\n  if (has_another(replica, true)) {\n    replica.client->give_up_silent(milliseconds(1));\n    replica.client->interrupt();\n    MutexLock lock(mutex_);\n    replica.state = ReplicaState::kStale;\n    changed_.notify_all();\n    static_cast<void>(changed_.wait_for(lock, milliseconds(500)));\n  }/
