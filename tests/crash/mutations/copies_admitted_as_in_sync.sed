# transport/volume/replica.cc
# a replica that is written again is read before it is up to date
# explore --bricks 2 --copies 2 --max-ops 2
s/{kStale, Event::kAdmitted, {kSyncing}}/{kStale, Event::kAdmitted, {kInSync}}/
