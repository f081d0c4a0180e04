# fs/served/served_volume.cc
# one that has gone before a member came to it is sought for ever
# shared
s/if (lost.missed != holder->client) return/return/
