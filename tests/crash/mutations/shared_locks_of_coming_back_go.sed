# fs/shared/member_session.cc
# a coordinator that ends lets go of its members' locks
# shared
s/^  if (how == Ends::kComesBack) return;/  if (how == Ends::kComesBack) return (void)files_.release_machine_locks(id_);/
