# server/service/lease.cc
# a client that is expelled goes on with the sessions that it has
# shared
/^Status VolumeTable::expel/,/^}/s/^  for (const auto\& session : sessions) {/  for (const auto\& session : Sessions()) {/
