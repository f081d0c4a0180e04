# fs/operations/filesystem.cc
# fsync does not wait
s/^  return impl_->journal->sync(context.interruption);/  return {};/
