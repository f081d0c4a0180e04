# fs/operations/mount.cc
# a mount frees blocks on the word of a journal that is not durable yet
s/^  TRY(settle_suspects());/  TRY(free_leaked());\n&/
