# fs/shared/leases.cc
# a member that does not answer is thought to rely on nothing any more
# shared
s/ || now - machine.renewed < kLapses) continue;/) continue;/
