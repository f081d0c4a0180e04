# server/service/volume_admin.cc
# the blocks of a removed volume are freed before it is said, durably, that it goes
# store
s/if (has_more \&\& volume/if (false \&\& has_more \&\& volume/
