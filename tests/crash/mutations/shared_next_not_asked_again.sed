# fs/shared/coordinator_sought.cc
# a member goes back to the former coordinator when the brick cannot be asked where the next one is
# shared
s/    if (!has_next || /    if (!is_there || /
