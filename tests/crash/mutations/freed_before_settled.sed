# fs/operations/mount.cc
# a mount frees blocks on the word of a journal that is not durable yet
s/^  TRY(free_leaked());$//
s/^  TRY(commit_suspects(volume_, recovered_));/  TRY(free_leaked());\n&/
