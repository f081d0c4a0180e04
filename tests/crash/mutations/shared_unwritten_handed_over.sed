# fs/served/handing_over.cc
# programs of who hands the volume over go on though not all that they were told was written
# shared
s/^  if (is_first \&\& !ended.ok()) /  if (false) /
