# server/store/store_copies.cc
# a header may tell of a second copy that is not durable yet
# store
/^Status StoreFile::make_copy/,/^}/s/^    TRY(sync());//
