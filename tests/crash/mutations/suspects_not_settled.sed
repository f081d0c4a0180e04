# fs/recovery/recovery.cc
# a mount builds on what the former holder did not commit
s/^  TRY(commit_suspects(volume, recovered));//
