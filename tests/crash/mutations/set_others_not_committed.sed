# transport/volume/volume_set.cc
# a commit does not make durable on the other bricks what the journal refers to
# explore --bricks 2 --max-ops 2
s/TRY(commit_others(by));//
