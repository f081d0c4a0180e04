# transport/volume/replica.cc
# a replica that is brought back counts as in sync before the map was asked
# explore --bricks 2 --copies 2 --max-ops 2
s/{kSyncing, Event::kTold, {kJoining}}/{kSyncing, Event::kTold, {kInSync}}/
