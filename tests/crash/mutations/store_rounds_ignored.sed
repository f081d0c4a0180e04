# server/block_commit.cc
# the ranges of a commit become durable in any order
# store
s/if (ranges\[i\].after_previous \&\& i > 0) TRY(sync());//
