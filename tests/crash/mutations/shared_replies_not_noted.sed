# fs/operations/filesystem_state.cc
# the journal does not say whose call a change was
# shared
s/if (context.call.number == 0) return/if (true) return/
