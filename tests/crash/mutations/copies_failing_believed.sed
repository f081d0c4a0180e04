# transport/volume/replica.cc
# what a replica has that has lost something is believed
# explore --bricks 2 --copies 2 --max-ops 2
s/{kOutFailing, Event::kOthersMarked, {kStale, kLeaves | kForgetWhatItHas}}/{kOutFailing, Event::kOthersMarked, {kStale, kLeaves}}/
