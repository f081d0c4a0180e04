# server/service/volume_admin.cc
# the record of a removed volume may be gone before its blocks are
# store
s/^  TRY(records_->sync());$//
