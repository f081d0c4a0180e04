# fs/space/block_supply.cc
# a mount does not free what nothing refers to
s/^  TRY(return_unused(supply));//
