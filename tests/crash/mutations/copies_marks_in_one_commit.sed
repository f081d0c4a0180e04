# transport/volume/mirror_repair.cc
# one commit has both slots of a mark to write
# explore --bricks 2 --copies 2 --max-ops 0 --seeds 400
s/if (client.session().suspect_blocks > 0) {/if (false) {/
