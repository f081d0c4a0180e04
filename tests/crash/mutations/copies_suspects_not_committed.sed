# transport/volume/mirror_repair.cc
# a replica is in sync again before what it had from before is durable
# explore --bricks 2 --copies 2 --max-ops 2
s/if (status.ok() \&\& session.suspect_blocks > 0) status = joined.commit_blocks(TRY(joined.list()), {}, {});//
