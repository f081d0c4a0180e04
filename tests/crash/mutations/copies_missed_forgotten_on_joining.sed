# transport/volume/replica.cc
# what a replica misses is forgotten as soon as it is written again
# explore --bricks 2 --copies 2 --max-ops 2
s/{kStale, Event::kAdmitted, {kSyncing}}/{kStale, Event::kAdmitted, {kSyncing, kHasEverything}}/
