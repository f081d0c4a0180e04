# fs/operations/mount.cc
# a mount builds on what the former holder did not commit
s/^  TRY(settle_suspects());//
