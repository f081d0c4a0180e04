# server/store/block_commit.cc
# a commit writes bytes while entries of blocks it may refer to are not durable
# store
s/ \&\& !store_->table_is_durable()) TRY(sync());/ \&\& false) TRY(sync());/
