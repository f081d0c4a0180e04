# server/store/group_sync.cc
# who comes while a sync runs is content with that one
# store
s/wanted = begun_ + 1;/wanted = begun_ == ended_ ? begun_ + 1 : begun_;/
