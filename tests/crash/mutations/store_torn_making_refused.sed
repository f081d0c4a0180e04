# server/store/store_open.cc
# a store whose making was torn is taken for a foreign file
# store
s/ || (bytes != 0 \&\& making_was_torn(\*size))//
