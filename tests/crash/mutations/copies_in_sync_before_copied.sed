# transport/volume/mirror_repair.cc
# the map calls a replica in sync before what it missed is copied
# explore --bricks 2 --copies 2 --max-ops 2
s/set_state(entry, ReplicaState::kSyncing, entry.since);/set_state(entry, ReplicaState::kInSync, 0);/
