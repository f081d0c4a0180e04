# server/store/block_commit.cc
# a commit returns before its bytes are durable
# store
s/^    TRY(sync());$//
