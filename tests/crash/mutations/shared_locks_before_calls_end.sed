# fs/shared/member_session.cc
# who is expelled may have a call under way when another gets his lock
# shared
s/^  for (Slot\& slot : slots_) MutexLock turn(slot.mutex);/  if (how != Ends::kComesBack) (void)files_.release_machine_locks(id_);\n&/
