# fs/space/block_supply.cc
# a soft mount forgets blocks whose alloc nobody answered
# faults
s/  if (doubtful) supply.in_doubt.push_back(blocks);//
