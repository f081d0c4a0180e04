# fs/operations/mount.cc
# a mount frees blocks on the word of a journal that is not durable yet
s/^  TRY(settle(volume_, recovered_));/  for (const BlockRange\& leaked : recovered_.blocks.leaked) TRY(volume_.free(leaked));\n  recovered_.blocks.leaked.clear();\n&/
