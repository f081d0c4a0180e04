# fs/recovery/recovery.cc
# a mount builds on what the former holder did not commit
# explore --seeds 8 --sequence "allocate b 0 600000; sync; truncate b 50"
s/^  TRY(commit_suspects(volume, recovered));//
