# transport/volume/mirror_repair.cc
# what was being written when a replica was left out is not copied to it
# explore --bricks 2 --copies 2 --max-ops 2
s/  replica.missed.insert(active);//
