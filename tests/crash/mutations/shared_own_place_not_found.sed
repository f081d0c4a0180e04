# fs/served/served_volume.cc
# who has taken the place, and has lost the way to itself, does not find it again
# shared
s/^  if (lost.coordinator == client_.load()) return {};/  return {};/
