# fs/shared/coordinator.cc
# ... of those that change nothing
# shared
s/shows_files(call.request) ?/shows_files(call.request) \&\& !answer.may_be_done_again ?/
