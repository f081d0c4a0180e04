# fs/shared/coordinator.cc
# an answer does not wait for what it shows to be written
# shared
s/^  TRY(files_->await_written(context));//
