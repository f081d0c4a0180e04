# server/service/volume_admin.cc
# a volume is told to be removed before that is durable
# store
s/^  return records_->sync();$/  return {};/
