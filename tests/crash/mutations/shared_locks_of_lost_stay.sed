# fs/shared/member_session.cc
# the locks of a member that is expelled stay
# shared
s/^  if (is_written) (void)files_.release_machine_locks(id_);//
