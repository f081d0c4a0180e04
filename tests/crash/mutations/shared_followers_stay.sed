# server/service/lease.cc
# who takes the volume leaves the sessions of the former coordinator's members as they are
# shared
s/^  if (begins_lease(volume, request))$/  if (false)/
