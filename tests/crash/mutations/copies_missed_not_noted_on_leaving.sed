# transport/volume/replica.cc
# what was under way when a replica was left out is not missed by it
# explore --bricks 2 --copies 2 --max-ops 2
s/^constexpr uint8_t kLeaves = .*/constexpr uint8_t kLeaves = kCutOff;/
