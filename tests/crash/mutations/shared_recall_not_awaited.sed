# fs/shared/leases.cc
# a change does not wait until it has been recalled
# shared
s/  if (!wanted.empty()) TRY(await_done(recall(wanted), by));/  if (!wanted.empty()) (void)recall(wanted);/
